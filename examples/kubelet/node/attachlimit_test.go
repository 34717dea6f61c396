package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi"
)

// crowded is a driver that has no place left for volumes named "full".
type crowded struct{ volume.Provider }

func (crowded) Supports(*corev1.Volume) bool { return true }

func (crowded) SetUp(_ context.Context, _ *corev1.Pod, v *corev1.Volume) (volume.Mounted, error) {
	if v.Name == "full" {
		return volume.Mounted{}, fmt.Errorf("%w: five are attached", csi.ErrAttachLimit)
	}
	return volume.Mounted{}, errors.New("oops")
}

func (crowded) TearDown(context.Context, types.UID) error { return nil }

// ends notes how pods are told to end. All else about them is their volumes.
type ends struct {
	volumes *volumes

	mu    sync.Mutex // guards ended
	ended map[types.UID]podworker.Termination
}

func (e *ends) Sync(ctx context.Context, pod *corev1.Pod) (podworker.Outcome, error) {
	_, err := e.volumes.SetUp(ctx, pod)
	return podworker.Outcome{}, err
}

func (e *ends) SyncTerminating(_ context.Context, pod *corev1.Pod, t podworker.Termination) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended[pod.UID] = t
	return nil
}

func (*ends) SyncTerminated(context.Context, *corev1.Pod) error { return nil }

// TestPodThatFindsNoPlaceForItsVolumeFails with VolumeAttachmentLimitExceeded, after the time
// that a pod waits for its volumes. One that waits for another reason goes on waiting.
func TestPodThatFindsNoPlaceForItsVolumeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &agent{log: slog.New(slog.DiscardHandler), helpers: helpers{metrics: newMetrics("node-a"), events: events.New(events.Config{})}}
		manager, err := volume.New(volume.Config{Root: t.TempDir(), Providers: []volume.Provider{crowded{}}})
		if err != nil {
			t.Fatal(err)
		}
		e := &ends{volumes: &volumes{manager: manager, objects: &objects{}, noPlace: a.noPlace}, ended: map[types.UID]podworker.Termination{}}
		if a.pool, err = podworker.New(e, podworker.Config{}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = a.pool.Run(ctx) })
		running.Go(func() { _ = manager.Run(ctx) })
		defer func() { stop(); running.Wait() }()
		for _, uid := range []types.UID{"full", "other"} {
			pod := &corev1.Pod{}
			pod.UID, pod.Namespace, pod.Name = uid, "default", string(uid)
			pod.Spec.Volumes = []corev1.Volume{{Name: string(uid)}}
			pod.Spec.Containers = []corev1.Container{{Name: "c", VolumeMounts: []corev1.VolumeMount{{Name: string(uid), MountPath: "/data"}}}}
			a.pool.Update(pod)
		}
		<-time.After(3 * time.Minute) // longer than a pod waits for its volumes
		synctest.Wait()
		got, ok := e.ended["full"]
		const message = "Pod was rejected: Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[full], "
		if !ok || got.Phase != corev1.PodFailed || got.Reason != "VolumeAttachmentLimitExceeded" ||
			!strings.HasPrefix(got.Message, message) || !strings.Contains(got.Message, "five are attached") {
			t.Errorf("the pod ends as %+v, want it to fail with %q", got, message)
		}
		if len(e.ended) != 1 {
			t.Errorf("ended are %v, want one", e.ended)
		}
		recent := a.events.Recent()
		if len(recent) != 1 || recent[0].Reason != "VolumeAttachmentLimitExceeded" || recent[0].Type != corev1.EventTypeWarning {
			t.Errorf("events are %v", recent)
		}
	})
}
