package podresources

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// podList is all pods; those without a UID are not active.
type podList []*corev1.Pod

func (l podList) Active() []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range l {
		if pod.UID != "" {
			out = append(out, pod)
		}
	}
	return out
}

func (l podList) Named(namespace, name string) (*corev1.Pod, bool) {
	for _, pod := range l {
		if pod.Namespace == namespace && pod.Name == name {
			return pod, true
		}
	}
	return nil, false
}

// desk has what containers have, by "uid/container", and what there is under "".
type desk[T any] map[string]T

func (d desk[T]) Assigned(uid types.UID, container string) T { return d[string(uid)+"/"+container] }
func (d desk[T]) Allocatable() T                             { return d[""] }

func newPod(uid types.UID, name string) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", name, uid
	pod.Spec.InitContainers = []corev1.Container{{Name: "init"}, {Name: "side", RestartPolicy: &always}}
	pod.Spec.Containers = []corev1.Container{{Name: "app"}}
	return pod
}

// serve serves until the test ends, and returns a client.
func serve(t *testing.T, cfg Config) resourcesapi.PodResourcesListerClient {
	t.Helper()
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 16)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx, l); err != nil {
			t.Error(err)
		}
	})
	conn, err := grpc.NewClient("passthrough:///node", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		running.Wait()
	})
	return resourcesapi.NewPodResourcesListerClient(conn)
}

func testConfig() Config {
	return Config{
		Pods: podList{newPod("u1", "one"), newPod("", "ended")},
		Devices: desk[map[string][]devices.Device]{
			"u1/app":  {"example.com/gpu": {{ID: "0", Nodes: []int{0, 1}}, {ID: "1"}}},
			"u1/side": {"example.com/nic": {{ID: "n"}}},
			"u1/init": {"example.com/nic": {{ID: "n"}}},
			"":        {"example.com/nic": {{ID: "n"}, {ID: "m"}}},
		},
		CPUs: desk[[]int]{"u1/app": {2, 3}, "": {1, 2, 3}},
		Memory: desk[[]Block]{
			"u1/app": {{Type: "memory", Size: 1 << 30, Nodes: []int{1}}},
			"":       {{Type: "hugepages-2Mi", Size: 2 << 20, Nodes: []int{0, 1}}},
		},
	}
}

// one is what the API tells of pod one.
func one() *resourcesapi.PodResources {
	return &resourcesapi.PodResources{Name: "one", Namespace: "default", Containers: []*resourcesapi.ContainerResources{
		{Name: "side", Devices: []*resourcesapi.ContainerDevices{{ResourceName: "example.com/nic", DeviceIds: []string{"n"}}}},
		{
			Name: "app", CpuIds: []int64{2, 3},
			Devices: []*resourcesapi.ContainerDevices{
				{ResourceName: "example.com/gpu", DeviceIds: []string{"0"}, Topology: topology([]int{0})},
				{ResourceName: "example.com/gpu", DeviceIds: []string{"0"}, Topology: topology([]int{1})},
				{ResourceName: "example.com/gpu", DeviceIds: []string{"1"}},
			},
			Memory: []*resourcesapi.ContainerMemory{{MemoryType: "memory", Size: 1 << 30, Topology: topology([]int{1})}},
		},
	}}
}

func TestAnswers(t *testing.T) {
	var asked []string
	cfg := testConfig()
	cfg.Asked = func(method string, err error) { asked = append(asked, method+" "+status.Code(err).String()) }
	client := serve(t, cfg)
	list, err := client.List(t.Context(), &resourcesapi.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]*resourcesapi.PodResources{one()}, list.GetPodResources(), protocmp.Transform()); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	got, err := client.Get(t.Context(), &resourcesapi.GetPodResourcesRequest{PodNamespace: "default", PodName: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one(), got.GetPodResources(), protocmp.Transform()); diff != "" {
		t.Errorf("Get (-want +got):\n%s", diff)
	}
	_, err = client.Get(t.Context(), &resourcesapi.GetPodResourcesRequest{PodNamespace: "default", PodName: "two"})
	if want := "pod two in namespace default not found"; status.Convert(err).Message() != want {
		t.Errorf("Get of no pod: %v, want %q", err, want)
	}
	all, err := client.GetAllocatableResources(t.Context(), &resourcesapi.AllocatableResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := &resourcesapi.AllocatableResourcesResponse{
		Devices: []*resourcesapi.ContainerDevices{{ResourceName: "example.com/nic", DeviceIds: []string{"n"}}, {ResourceName: "example.com/nic", DeviceIds: []string{"m"}}},
		CpuIds:  []int64{1, 2, 3},
		Memory:  []*resourcesapi.ContainerMemory{{MemoryType: "hugepages-2Mi", Size: 2 << 20, Topology: topology([]int{0, 1})}},
	}
	if diff := cmp.Diff(want, all, protocmp.Transform()); diff != "" {
		t.Errorf("GetAllocatableResources (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"List OK", "Get OK", "Get Unknown", "GetAllocatableResources OK"}, asked); diff != "" {
		t.Errorf("calls that were told of (-want +got):\n%s", diff)
	}
}

// TestNodeThatHandsNothingOut still lists its pods.
func TestNodeThatHandsNothingOut(t *testing.T) {
	client := serve(t, Config{Pods: testConfig().Pods})
	list, err := client.List(t.Context(), &resourcesapi.ListPodResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	want := []*resourcesapi.PodResources{{Name: "one", Namespace: "default", Containers: []*resourcesapi.ContainerResources{{Name: "side"}, {Name: "app"}}}}
	if diff := cmp.Diff(want, list.GetPodResources(), protocmp.Transform()); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
}

// TestCallsInALoop are rejected after ten, and let in again at 100 a second.
func TestCallsInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := serve(t, testConfig())
		count := func(calls int) (ok int) {
			for range calls {
				_, err := client.List(t.Context(), &resourcesapi.ListPodResourcesRequest{})
				switch {
				case err == nil:
					ok++
				case status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() != "rejected by rate limit":
					t.Errorf("error is %v, want that it is rejected", err)
				}
			}
			return ok
		}
		if got := count(200); got != 10 {
			t.Errorf("%d calls at once are let in, want 10", got)
		}
		for _, step := range []struct {
			pause time.Duration
			want  int
		}{{50 * time.Millisecond, 5}, {10 * time.Millisecond, 1}, {time.Hour, 10}} {
			time.Sleep(step.pause) //nolint:forbidigo // fake time
			if got := count(20); got != step.want {
				t.Errorf("after %s %d calls are let in, want %d", step.pause, got, step.want)
			}
		}
	})
}

func TestNewNeedsPods(t *testing.T) {
	if _, err := New(Config{}); err == nil {
		t.Error("New without pods is no error")
	}
}
