package podsync_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// resizable is a pod of an API server that asks for CPU.
func resizable(request string, policy ...corev1.ContainerResizePolicy) *corev1.Pod {
	pod := newPod("grows")
	pod.Annotations = nil
	pod.Spec.Containers[0].Resources = cpu(request)
	pod.Spec.Containers[0].ResizePolicy = policy
	return pod
}

// shares returns the CPU shares that the runtime was told of for sandboxes.
func (m *machine) shares() []int64 {
	var out []int64
	for _, call := range m.Calls("UpdatePodSandboxResources") {
		out = append(out, call.Request.(*runtimeapi.UpdatePodSandboxResourcesRequest).GetResources().GetCpuShares())
	}
	return out
}

// TestRuntimeMayRefuseAResize tells the runtime of what a pod is to have before any of it
// is changed. What it answers counts, unless it does not know the call.
func TestRuntimeMayRefuseAResize(t *testing.T) {
	restart := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}
	tests := []struct {
		name   string
		policy []corev1.ContainerResizePolicy
		err    error
		want   string
	}{
		{name: "accepted"},
		{name: "call not known", err: status.Error(codes.Unimplemented, "unknown method")},
		{name: "call not known to containerd 2.2", err: status.Error(codes.Unknown, "not implemented yet")},
		{name: "refused", err: status.Error(codes.InvalidArgument, "no room in the machine"), want: "True Error"},
		{name: "refused when it restarts a container", policy: []corev1.ContainerResizePolicy{restart}, err: status.Error(codes.InvalidArgument, "no room in the machine"), want: "True Error"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				a := m.agent(t)
				a.add(resizable("100m", tt.policy...))
				pass(4 * time.Second)
				if tt.err != nil {
					m.Inject("UpdatePodSandboxResources", runtimetest.Fault{Err: tt.err})
				}
				a.add(resizable("200m", tt.policy...))
				pass(20 * time.Second)
				st := a.status(resizable("1"))
				if got := condition(&st, corev1.PodResizeInProgress); got != tt.want {
					t.Errorf("PodResizeInProgress is %q, want %q", got, tt.want)
				}
				if got := len(m.Calls("UpdateContainerResources")); tt.want != "" && got > 0 {
					t.Errorf("%d containers were changed although the runtime refuses", got)
				}
				if got := len(a.told("ResizeCompleted")); (got == 0) != (tt.want != "") {
					t.Errorf("%d times completed with condition %q", got, tt.want)
				}
				m.ClearFaults()
				pass(time.Minute)
				st = a.status(resizable("1"))
				if got := condition(&st, corev1.PodResizeInProgress); got != "" || len(a.told("ResizeCompleted")) != 1 {
					t.Errorf("PodResizeInProgress is %q in the end, completed %d times, want none and once", got, len(a.told("ResizeCompleted")))
				}
				if got := m.shares(); len(got) == 0 || got[len(got)-1] != 204 {
					t.Errorf("the runtime was told of %v shares, want 204 in the end", got)
				}
			})
		})
	}
}

// TestRuntimeHearsOfAResizeThatFailed tells it what the pod has still.
func TestRuntimeHearsOfAResizeThatFailed(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		g := &groups{}
		a := m.agent(t, func(c *podsync.Config) { c.Parts.PodCgroups = g })
		pod := func(limit string) *corev1.Pod {
			p := wholePod(limit)
			p.Spec.Containers = p.Spec.Containers[:1]
			return p
		}
		a.add(pod("64Mi"))
		pass(4 * time.Second)
		g.fail(errors.New("in use"))
		a.add(pod("128Mi"))
		pass(2 * time.Second)
		var got []int64
		for _, call := range m.Calls("UpdatePodSandboxResources") {
			got = append(got, call.Request.(*runtimeapi.UpdatePodSandboxResourcesRequest).GetResources().GetMemoryLimitInBytes()>>20)
		}
		if want := []int64{128, 64}; !slices.Equal(got, want) {
			t.Errorf("the runtime was told of %v Mi, want %v", got, want)
		}
	})
}
