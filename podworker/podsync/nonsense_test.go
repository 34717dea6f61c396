package podsync_test

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// nonsense is a runtime whose answers are not what was asked for.
type nonsense struct {
	*runtime.Client
	emptyStatus, ignoreFilter bool
}

func (n *nonsense) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	if n.emptyStatus {
		return &runtimeapi.ContainerStatusResponse{}, nil
	}
	return n.Client.ContainerStatus(ctx, id, verbose)
}

func (n *nonsense) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	if n.emptyStatus {
		return &runtimeapi.PodSandboxStatusResponse{}, nil
	}
	return n.Client.PodSandboxStatus(ctx, id, verbose)
}

func (n *nonsense) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	if n.ignoreFilter {
		f = nil
	}
	return n.Client.ListPodSandbox(ctx, f)
}

func (n *nonsense) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	if n.ignoreFilter {
		f = nil
	}
	return n.Client.ListContainers(ctx, f)
}

// TestRuntimeAnswersNonsense looks at a pod through answers that are empty or are
// about other pods: nothing is done on that ground, and the other pod is left alone
// even when the first is stopped and removed.
func TestRuntimeAnswersNonsense(t *testing.T) {
	for _, tt := range []struct {
		name    string
		runtime nonsense
		wantErr bool
	}{
		{name: "empty status", runtime: nonsense{emptyStatus: true}, wantErr: true},
		{name: "filter ignored", runtime: nonsense{ignoreFilter: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				a := m.agent(m.t)
				pod, other := newPod("web"), newPod("other")
				a.add(pod)
				a.add(other)
				pass(5 * time.Second)
				a.stop()
				m.ForgetCalls()

				tt.runtime.Client = m.Client(m.t)
				syncer, err := podsync.New(&tt.runtime, m.config())
				if err != nil {
					m.t.Fatal(err)
				}
				if _, err := syncer.Sync(m.t.Context(), pod); (err != nil) != tt.wantErr {
					m.t.Errorf("Sync: %v, want an error: %v", err, tt.wantErr)
				}
				m.WantChanges(m.t)

				if err := syncer.SyncTerminating(m.t.Context(), pod, inOneSecond); err != nil {
					m.t.Errorf("SyncTerminating: %v", err)
				}
				if err := syncer.Forget(m.t.Context(), pod.UID); err != nil {
					m.t.Errorf("Forget: %v", err)
				}
				seen, err := tt.runtime.Snapshot(m.t.Context())
				if err != nil {
					m.t.Fatal(err)
				}
				if n := len(seen.Pods); n != 1 {
					m.t.Errorf("%d pods left, want the other one", n)
				}
			})
		})
	}
}

// TestListTooLargeIsNotEmpty has the lists of the runtime outgrow a message, as with
// very many dead containers: nobody takes that for a pod without containers.
func TestListTooLargeIsNotEmpty(t *testing.T) {
	for _, rpc := range []string{"ListContainers", "ListPodSandbox"} {
		t.Run(rpc, func(t *testing.T) {
			bubble(t, func(m *machine) {
				a := m.agent(m.t)
				pod, gone := newPod("web"), newPod("gone")
				a.add(pod)
				a.add(gone)
				pass(5 * time.Second)
				m.ForgetCalls()
				m.Inject(rpc, runtimetest.Fault{Err: status.Error(codes.ResourceExhausted, "grpc: received message larger than max (17000000 vs. 16777216)")})
				a.pool.Wake(pod.UID)
				a.remove(gone)
				pass(2 * time.Minute)
				m.WantChanges(m.t)
				if err := a.syncer.Forget(m.t.Context(), gone.UID); err == nil {
					m.t.Error("Forget of a pod of which nothing is known: no error")
				}
				m.ClearFaults()
				pass(time.Minute)
				if n := len(m.Calls("RunPodSandbox")); n != 0 {
					m.t.Errorf("%d sandboxes made, want none", n)
				}
				if n := len(m.Calls("StopPodSandbox")); n != 1 {
					m.t.Errorf("%d sandboxes stopped once the lists work, want 1", n)
				}
			})
		})
	}
}
