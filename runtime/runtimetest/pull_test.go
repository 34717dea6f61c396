package runtimetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestPull(t *testing.T) {
	for _, c := range []struct {
		name   string
		images []runtimetest.Image
		pull   string
		// timeout is the caller's; zero means none.
		timeout  time.Duration
		wantTime time.Duration
		// want is OK for a pull that succeeds.
		want codes.Code
	}{
		{name: "any image when none is listed", pull: "web"},
		{name: "present", images: []runtimetest.Image{{Name: "web"}}, pull: "web"},
		{name: "takes a while", images: []runtimetest.Image{{Name: "web", Pull: &runtimetest.Pull{Takes: time.Minute}}}, pull: "docker.io/library/web:latest", wantTime: time.Minute},
		{name: "unknown", images: []runtimetest.Image{}, pull: "web", want: codes.NotFound},
		{name: "fails after a while", images: []runtimetest.Image{{Name: "web", Pull: &runtimetest.Pull{Takes: time.Second, Err: status.Error(codes.Unavailable, "RegistryUnavailable: 503")}}}, pull: "web", wantTime: time.Second, want: codes.Unavailable},
		{name: "given up", images: []runtimetest.Image{{Name: "web", Pull: &runtimetest.Pull{Takes: time.Hour}}}, pull: "web", timeout: time.Minute, wantTime: time.Minute, want: codes.DeadlineExceeded},
		{name: "no name", pull: "", want: codes.InvalidArgument},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := runtimetest.Start(t, runtimetest.Config{Images: c.images}).Client(t)
				ctx := t.Context()
				if c.timeout > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.timeout)
					defer cancel()
				}
				began := time.Now()
				ref, err := client.PullImage(ctx, &runtimeapi.ImageSpec{Image: c.pull}, nil, nil)
				if status.Code(err) != c.want {
					t.Errorf("error is %v, want code %v", err, c.want)
				}
				if took := time.Since(began); took != c.wantTime {
					t.Errorf("the pull took %v, want %v", took, c.wantTime)
				}
				st, err := client.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: c.pull}, false)
				if err != nil {
					t.Fatal(err)
				}
				if present := st.GetImage() != nil; present != (c.want == codes.OK) || st.GetImage().GetId() != ref {
					t.Errorf("after the pull of %q the image is %v", ref, st.GetImage())
				}
			})
		})
	}
}

func TestImagesComeAndGo(t *testing.T) {
	w := newWorld(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web", Size: 5 << 20}}})
	ctx := t.Context()
	all, err := w.client.ListImages(ctx, nil)
	w.must(err)
	if len(all) != 1 || all[0].GetSize() != 5<<20 {
		t.Fatalf("images are %v, want web of 5 MiB", all)
	}
	w.server.SetImage(runtimetest.Image{Name: "db"})
	fs, err := w.client.ImageFsInfo(ctx)
	w.must(err)
	if used := fs.GetImageFilesystems()[0].GetUsedBytes().GetValue(); used != 6<<20 {
		t.Errorf("%d bytes are used by images of 5 MiB and 1 MiB", used)
	}
	w.must(w.client.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: all[0].GetId()}))
	one, err := w.client.ListImages(ctx, &runtimeapi.ImageFilter{Image: &runtimeapi.ImageSpec{Image: "web"}})
	if err != nil || len(one) != 0 {
		t.Errorf("after its removal web is %v, %v", one, err)
	}
	// A known image that was removed can be had again, an image that needs a pull is
	// absent before.
	_, err = w.client.PullImage(ctx, &runtimeapi.ImageSpec{Image: "web"}, nil, nil)
	w.must(err)
	w.server.SetImage(runtimetest.Image{Name: "db", Pull: &runtimetest.Pull{}})
	sandbox := w.run(sandboxConfig("web"))
	config := containerConfig("app", 0)
	config.Image.Image = "db"
	if _, err := w.client.CreateContainer(ctx, sandbox, config, sandboxConfig("web")); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("error without the image is %v, want ErrNotFound", err)
	}
}

func TestImportedImageHasNoDigest(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
	st, err := w.client.ContainerStatus(t.Context(), id, false)
	w.must(err)
	if ref := st.GetStatus().GetImageRef(); ref != st.GetStatus().GetImageId() {
		t.Errorf("image of the container is %q, want its id %q", ref, st.GetStatus().GetImageId())
	}
}

// A pulled image is known by a digest too, and containers name it so.
func TestPulledImageHasADigest(t *testing.T) {
	w := newWorld(t, runtimetest.Config{Images: []runtimetest.Image{{Name: image, Pull: &runtimetest.Pull{}}}})
	_, err := w.client.PullImage(t.Context(), &runtimeapi.ImageSpec{Image: image}, nil, nil)
	w.must(err)
	id := w.start(w.run(sandboxConfig("web")), containerConfig("app", 0))
	st, err := w.client.ContainerStatus(t.Context(), id, false)
	w.must(err)
	digest := st.GetStatus().GetImageRef()
	if !strings.HasPrefix(digest, "img.example/web@sha256:") {
		t.Errorf("image of the container is %q, want a digest", digest)
	}
	found, err := w.client.ImageStatus(t.Context(), &runtimeapi.ImageSpec{Image: digest}, false)
	w.must(err)
	if found.GetImage().GetId() != st.GetStatus().GetImageId() {
		t.Errorf("image by the digest %q is %v, want %s", digest, found.GetImage(), st.GetStatus().GetImageId())
	}
}
