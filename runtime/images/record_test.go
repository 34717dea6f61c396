package images_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

const private = "reg.example/web:1"

func openStore(t *testing.T, dir string) *pullrecord.Store {
	t.Helper()
	store, err := pullrecord.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// A pod gets a private image that is on the node only by credentials of its own.
func TestPrivateImages(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{Records: openStore(t, dir)}, runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}},
			runtimetest.Image{Name: "preloaded:1"}, runtimetest.Image{Name: "public.invalid/web:1", Pull: &runtimetest.Pull{}})
		w.secret("mine", "me")
		w.secret("theirs", "them")
		w.want(w.ensure(pod("a", "mine"), private, corev1.PullIfNotPresent), "ok")
		w.wantPulls(1)
		w.wantEvents(`a Normal Pulling: Pulling image "reg.example/web:1"`,
			`a Normal Pulled: Successfully pulled image "reg.example/web:1" in 0s (0s including waiting). Image size: 1048576 bytes.`)
		w.want(w.ensure(pod("b", "mine"), private, corev1.PullIfNotPresent), "ok")
		w.wantPulls(1)
		w.wantEvents(`b Normal Pulled: Container image "reg.example/web:1" already present on machine and can be accessed by the pod`)
		// That it is there is not told to those who may not know.
		w.want(w.ensure(pod("c"), private, corev1.PullNever), "ErrImageNeverPull after 0s")
		w.wantEvents(`c Warning ErrImageNeverPull: Container image "reg.example/web:1" is not present with pull policy of Never`, `c Warning Failed: Error: ErrImageNeverPull`)
		w.want(w.ensure(pod("c", "mine"), private, corev1.PullNever), "ok")
		w.want(w.ensure(pod("d", "theirs"), private, corev1.PullIfNotPresent), "ok")
		w.wantPulls(2)
		w.want(w.ensure(pod("e", "theirs"), private, corev1.PullNever), "ok")
		w.want(w.ensure(pod("f"), "preloaded:1", corev1.PullNever), "ok")
		w.want(w.ensure(pod("g"), "public.invalid/web:1", corev1.PullIfNotPresent), "ok")
		w.want(w.ensure(pod("h"), "public.invalid/web:1", corev1.PullNever), "ok")
		w.wantPulls(3)
	})
}

// A failed check is a pull like any other: it fails if the registry says so.
func TestPrivateImageWithWrongCredentials(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, dir)
		w := newWorld(t, images.Config{Records: store}, runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
		w.secret("mine", "me")
		w.want(w.ensure(pod("a", "mine"), private, ""), "ok")
		w.server.Inject("PullImage", runtimetest.Fault{Err: os.ErrPermission})
		w.want(w.ensure(pod("b"), private, ""), "ErrImagePull after 10s")
		w.want(w.ensure(pod("b"), private, ""), "ImagePullBackOff after 10s")
		w.want(w.ensure(pod("a", "mine"), private, ""), "ok")
		if n := len(pending(t, dir)); n != 0 {
			t.Errorf("%d pulls are on record as begun", n)
		}
	})
}

// Of two pods that share a pull by different secrets with the same credential, both
// have access afterwards.
func TestSharedPullIsRecordedForAll(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{Records: openStore(t, dir)}, slow(private, time.Minute))
		w.secret("one", "me")
		w.secret("two", "me")
		var wg sync.WaitGroup
		for _, name := range []string{"one", "two"} {
			wg.Go(func() { w.want(w.ensure(pod(name, name), private, ""), "ok") })
		}
		wg.Wait()
		w.wantPulls(1)
		w.secret("one", "changed")
		w.secret("two", "changed too")
		for _, name := range []string{"one", "two"} {
			w.want(w.ensure(pod(name, name), private, corev1.PullNever), "ok")
		}
	})
}

// What the credentials of the node brought is for every pod.
func TestCredentialsOfTheNode(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(`{"auths":{"reg.example":{"username":"node","password":"p"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{Records: openStore(t, dir), Credentials: images.Credentials{Files: registryauth.Files{Paths: []string{file}}}},
			runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
		w.want(w.ensure(pod("a"), private, ""), "ok")
		if got := w.users(); got != "node" {
			t.Errorf("users tried are %q, want node", got)
		}
		w.want(w.ensure(pod("b"), private, corev1.PullNever), "ok")
	})
}

// Without a record there is no pull: the image would look as if it had been there.
func TestNoRecordNoPull(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{Records: openStore(t, dir)})
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		w.want(w.ensure(pod("a"), private, ""), "ErrImagePull after 10s")
		w.wantPulls(0)
	})
}

// An image whose pull went well and that the runtime does not describe is nobody's.
func TestUndescribedImageIsNobodys(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{Records: openStore(t, dir)}, runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
		w.secret("mine", "me")
		w.server.Inject("ImageStatus", runtimetest.Fault{Err: os.ErrClosed})
		w.want(w.ensure(pod("a", "mine"), private, corev1.PullAlways), "ImageInspectError after 0s")
		w.server.ClearFaults()
		w.want(w.ensure(pod("b"), private, corev1.PullNever), "ErrImageNeverPull after 0s")
		w.want(w.ensure(pod("a", "mine"), private, ""), "ok")
		w.wantPulls(2)
	})
}

// A pull whose end nobody saw may have brought the image: it is nobody's until it is pulled
// again. Of one that the runtime refused, or was not asked for, nothing is left.
func TestPullWhoseEndIsNotSeen(t *testing.T) {
	lost := runtimetest.Fault{Times: 1, Late: true, Hang: true} // the image is there, the answer is not
	for _, c := range []struct {
		name   string
		fault  runtimetest.Fault
		during func(*world, context.CancelFunc)
		want   string
		// open says that the image counts as one that was there before.
		open bool
	}{
		{name: "cancelled", fault: lost, during: func(_ *world, cancel context.CancelFunc) { cancel() }, want: "context canceled"},
		{name: "the runtime goes down", fault: lost, during: func(w *world, _ context.CancelFunc) { w.server.Down() }, want: "ErrImagePull after 10s"},
		{name: "the answer has no name", fault: runtimetest.Fault{Times: 1, Edit: func(m proto.Message) { proto.Reset(m) }}, want: "ErrImagePull after 10s"},
		{name: "cancelled while the image is looked at", want: "context canceled", during: func(_ *world, cancel context.CancelFunc) { cancel() }},
		{name: "refused", fault: runtimetest.Fault{Times: 1, Err: status.Error(codes.Unknown, "denied")}, want: "ErrImagePull after 10s", open: true},
		{name: "the registry is away", fault: runtimetest.Fault{Times: 1, Err: status.Error(codes.Unavailable, "registry")}, want: "ErrImagePull after 10s", open: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, images.Config{Records: openStore(t, dir)}, runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
				w.secret("mine", "me")
				w.server.Inject("PullImage", c.fault)
				if c.fault.Times == 0 {
					w.server.ClearFaults()
					w.server.Inject("ImageStatus", runtimetest.Fault{Times: 1, Hang: true})
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() { w.want(w.ensureCtx(ctx, pod("a", "mine"), private, corev1.PullAlways), c.want) })
				synctest.Wait()
				if c.during != nil {
					c.during(w, cancel)
				}
				wg.Wait()
				if err := w.server.Up(); err != nil {
					t.Fatal(err)
				}
				w.server.ClearFaults()
				if c.open {
					w.server.SetImage(runtimetest.Image{Name: private})
					w.want(w.ensure(pod("b"), private, corev1.PullNever), "ok")
					return
				}
				w.want(w.ensure(pod("b"), private, corev1.PullNever), "ErrImageNeverPull after 0s")
				w.manager.Forget("uid-a")
				w.want(w.ensure(pod("a", "mine"), private, corev1.PullIfNotPresent), "ok")
				w.wantPulls(2)
				w.want(w.ensure(pod("b"), private, corev1.PullNever), "ErrImageNeverPull after 0s")
				if n := len(pending(t, dir)); n != 0 {
					t.Errorf("%d pulls are on record as begun", n)
				}
			})
		})
	}
}

// A pull that waits for its turn has brought nothing.
func TestPullThatIsCancelledInTheQueue(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{MaxParallel: 1, Records: openStore(t, dir)}, slow("first:1", time.Hour), runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
		var wg sync.WaitGroup
		wg.Go(func() { w.want(w.ensure(pod("a"), "first:1", ""), "ok") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		w.want(w.ensureCtx(ctx, pod("b"), private, ""), "context deadline exceeded")
		w.server.SetImage(runtimetest.Image{Name: private})
		w.want(w.ensure(pod("c"), private, corev1.PullNever), "ok")
		wg.Wait()
	})
}

// A record that cannot be read is logged and set right by a pull.
func TestBrokenRecord(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		w := newWorld(t, images.Config{Records: openStore(t, dir), Log: slog.New(slog.NewTextHandler(&log, nil))}, runtimetest.Image{Name: private, Pull: &runtimetest.Pull{}})
		w.want(w.ensure(pod("a"), private, ""), "ok")
		files, err := filepath.Glob(filepath.Join(dir, "pulled", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("records are %q, %v, want one", files, err)
		}
		if log.Len() > 0 {
			t.Errorf("log is %s", log.String())
		}
		if err := os.WriteFile(files[0], []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.want(w.ensure(pod("b"), private, ""), "ok")
		w.wantPulls(2)
		if !strings.Contains(log.String(), "record of image pulls is of no use") {
			t.Errorf("log is %q, want the record in it", log.String())
		}
		w.want(w.ensure(pod("c"), private, corev1.PullNever), "ok")
	})
}

func pending(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "pulling"))
	if err != nil {
		t.Fatal(err)
	}
	return entries
}
