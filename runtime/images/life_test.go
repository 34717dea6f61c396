package images_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// source is how a part that starts containers asks for images without importing this
// package.
type source interface {
	ForContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error)
	ForVolume(ctx context.Context, pod *corev1.Pod, v *corev1.ImageVolumeSource, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error)
}

// waiting is what it asks of errors.
type waiting interface {
	error
	WaitingReason() string
	RetryAfter() time.Duration
}

var (
	_ source  = (*images.Manager)(nil)
	_ waiting = (*images.Error)(nil)
)

// The life of a private image: pulled, kept while a container may be about to start,
// removed from the full disk, forgotten.
func TestLifeOfAnImage(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := openStore(t, dir)
		w := newWorld(t, images.Config{Records: store}, runtimetest.Image{Name: private, Size: 50, Pull: &runtimetest.Pull{}})
		w.secret("mine", "me")
		collector, err := gc.New(w.server.Client(t), gc.Config{
			Policy: gc.Policy{HighPercent: 40, LowPercent: 10},
			Given:  w.manager.Given,
			Usage:  func(string) (gc.Usage, error) { return gc.Usage{Capacity: 100, Available: 50}, nil },
			Hooks: gc.Hooks{Collected: func(ids []string, listed time.Time) {
				if err := store.Prune(ids, listed); err != nil {
					t.Error(err)
				}
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		w.want(w.ensure(pod("a", "mine"), private, ""), "ok")
		if result, err := collector.Collect(t.Context()); err == nil || len(result.Removed) != 0 {
			t.Errorf("right after it was given, %+v, %v", result, err)
		}
		elapse(3 * time.Minute)
		if result, err := collector.Collect(t.Context()); err != nil || len(result.Removed) != 1 {
			t.Errorf("when nothing needs it, %+v, %v", result, err)
		}
		records, err := filepath.Glob(filepath.Join(dir, "pulled", "*"))
		if err != nil || len(records) != 0 {
			t.Errorf("records are %q, %v, want none", records, err)
		}
	})
}

// After a crash in the middle of a pull that the runtime finished, the image is nobody's
// until it is pulled again.
func TestCrashInThePull(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		before := openStore(t, dir)
		if err := before.Begin(private); err != nil {
			t.Fatal(err)
		}
		store := openStore(t, dir)
		w := newWorld(t, images.Config{Records: store}, runtimetest.Image{Name: private})
		if err := images.Recover(t.Context(), w.server.Client(t), store); err != nil {
			t.Fatal(err)
		}
		if n := len(pending(t, dir)); n != 0 {
			t.Errorf("%d pulls are on record as begun", n)
		}
		w.want(w.ensure(pod("a"), private, corev1.PullNever), "ErrImageNeverPull after 0s")
		w.want(w.ensure(pod("a"), private, ""), "ok")
		w.wantPulls(1)
		w.server.Inject("ListImages", runtimetest.Fault{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := images.Recover(ctx, w.server.Client(t), store); err == nil {
			t.Error("Recover succeeds without a list of images")
		}
	})
}

func TestNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{})
		if _, err := w.manager.Ensure(t.Context(), images.Request{Image: "web"}); err == nil {
			t.Error("a request without a pod is accepted")
		}
	})
}

// What a container that is restarted costs: its image is there and may be used.
func BenchmarkPresentImage(b *testing.B) {
	for _, c := range []struct {
		name    string
		records bool
	}{{"plain", false}, {"with records", true}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := images.Config{}
			if c.records {
				store, err := pullrecord.Open(b.TempDir())
				if err != nil {
					b.Fatal(err)
				}
				cfg.Records = store
			}
			m, err := images.New(&countingRuntime{TB: b, limit: 1, active: map[string]int{}}, cfg)
			if err != nil {
				b.Fatal(err)
			}
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "1"}}
			for b.Loop() {
				if _, err := m.Ensure(b.Context(), images.Request{Pod: p, Image: "web:1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
