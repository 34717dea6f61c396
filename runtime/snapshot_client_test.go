package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// deadContainers adds n exited containers of pods that are gone, of about 620 bytes
// each, to an answer of ListContainers.
func deadContainers(n int) func(proto.Message) {
	return func(m proto.Message) {
		resp := m.(*runtimeapi.ListContainersResponse)
		for i := range n {
			resp.Containers = append(resp.Containers, &runtimeapi.Container{
				Id:          fmt.Sprintf("%064x", i),
				Metadata:    &runtimeapi.ContainerMetadata{Name: "gone"},
				State:       runtimeapi.ContainerState_CONTAINER_EXITED,
				Labels:      map[string]string{"io.kubernetes.pod.uid": fmt.Sprintf("gone-%d", i%500)},
				Annotations: map[string]string{"filler": strings.Repeat("x", 480)},
			})
		}
	}
}

func TestManyDeadContainers(t *testing.T) {
	for _, c := range []struct {
		name string
		dead int
		// want is nil if the snapshot succeeds.
		want error
	}{
		{"12 MiB are taken", 20_000, nil},
		{"more than 16 MiB are unknown, not empty", 40_000, runtime.ErrTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
			client := s.Client(t)
			about := onRunningPod(t, client)
			s.Inject("ListContainers", runtimetest.Fault{Edit: deadContainers(c.dead)})
			snap, err := client.Snapshot(t.Context())
			if !errors.Is(err, c.want) {
				t.Fatalf("error is %v, want %v", err, c.want)
			}
			if err != nil {
				if snap != nil {
					t.Error("there is a snapshot beside the error")
				}
			} else if len(snap.Pods) != 501 || snap.Pods["web-uid"] == nil {
				t.Errorf("snapshot has %d pods, want 500 that are gone and the one that runs", len(snap.Pods))
			}
			// One pod can be looked at whatever the others left.
			if err := about["ContainerStatus"](); err != nil {
				t.Error(err)
			}
		})
	}
}

// A Snapshot in which nothing is different has the pods of the one before; the time is its
// own.
func TestSnapshotIsSharedWhileNothingChanges(t *testing.T) {
	s := runtimetest.StartUnix(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	c := s.Client(t)
	fill(t, c, 2)
	look := func() *runtime.Snapshot {
		t.Helper()
		snap, err := c.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	first := look()
	for range 10 { // lists come in another order each time
		now := look()
		if !now.Taken.After(first.Taken) {
			t.Errorf("a snapshot was taken at %v, not after %v", now.Taken, first.Taken)
		}
		for uid, p := range first.Pods {
			if now.Pods[uid] != p {
				t.Errorf("pod %s was made again", uid)
			}
		}
	}
	id, err := s.ContainerID("default/pod-0", "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func() error{
		func() error { return c.StartContainer(t.Context(), id) },
		func() error { return c.StopContainer(t.Context(), id, 0) },
		func() error { return c.RemoveContainer(t.Context(), id) },
	} {
		before := look()
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if got := runtime.Diff(before, look()); len(got) != 1 || got[0].Changes[0].ID != id {
			t.Errorf("changes are %v, want one of %s", got, id)
		}
	}
}

// fill makes n pods of one sandbox and three containers.
func fill(tb testing.TB, c *runtime.Client, n int) {
	tb.Helper()
	for i := range n {
		pod := podConfig(fmt.Sprintf("pod-%d", i))
		sandbox, err := c.RunPodSandbox(tb.Context(), pod, "")
		if err != nil {
			tb.Fatal(err)
		}
		for _, name := range []string{"a", "b", "c"} {
			config := containerConfig(name)
			config.Labels = pod.GetLabels()
			if _, err := c.CreateContainer(tb.Context(), sandbox, config, pod); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

func BenchmarkSnapshotAndDiff500Pods(b *testing.B) {
	s := runtimetest.StartUnix(b, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	c := s.Client(b)
	fill(b, c, 500)
	last, err := c.Snapshot(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		now, err := c.Snapshot(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if n := len(runtime.Diff(last, now)); n != 0 {
			b.Fatalf("%d pods changed, want none", n)
		}
		last = now
		s.ForgetCalls()
	}
}

// BenchmarkCall compares a call with the same one on a plain gRPC client, under the same
// deadline. The two take turns, so that a busy machine slows both; x-grpc is ours divided by the plain one's.
func BenchmarkCall(b *testing.B) {
	s := runtimetest.StartUnix(b, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
	c := s.Client(b)
	fill(b, c, 1)
	id, err := s.ContainerID("default/pod-0", "a")
	if err != nil {
		b.Fatal(err)
	}
	plain := runtimeapi.NewRuntimeServiceClient(dialPlain(b, s))
	var ours, theirs time.Duration
	for b.Loop() {
		began := time.Now()
		err := plainStatus(b.Context(), plain, id)
		between := time.Now()
		_, err2 := c.ContainerStatus(b.Context(), id, false)
		theirs += between.Sub(began)
		ours += time.Since(between)
		if err := errors.Join(err, err2); err != nil {
			b.Fatal(err)
		}
		s.ForgetCalls()
	}
	b.ReportMetric(float64(ours)/float64(theirs), "x-grpc")
}

func plainStatus(ctx context.Context, c runtimeapi.RuntimeServiceClient, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	_, err := c.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return err
}
