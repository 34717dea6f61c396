package node_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// apiAsks returns a pod of the API that requests CPU.
func apiAsks(name, cpu string) *corev1.Pod {
	pod := apiPod(name)
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	return pod
}

// shares returns the CPU shares of the container of a pod.
func (m *machine) shares(t *testing.T, pod string) int64 {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	id, err := m.ContainerID("default/"+pod, "app")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.ContainerStatus(t.Context(), id, false)
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetStatus().GetResources().GetLinux().GetCpuShares()
}

// pendingResize returns the reason for which a pod does not get what it asks for.
func (s *apiServer) pendingResize(pod *corev1.Pod) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.pods[pod.UID].Status.Conditions {
		if c.Type == corev1.PodResizePending {
			return c.Reason
		}
	}
	return ""
}

// TestDeferredResizeIsWoken has a pod wait for more CPU: it gets it at once when another
// pod asks for less, and when one leaves, also after a restart of the agent.
func TestDeferredResizeIsWoken(t *testing.T) {
	for _, tc := range []struct {
		name string
		room func(s *apiServer)
	}{
		{"by one that shrinks", func(s *apiServer) { s.bind(apiAsks("other", "100m")) }},
		{"by one that leaves", func(s *apiServer) { s.vanish("uid-other") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				s := newAPIServer()
				s.bind(apiAsks("grows", "500m"), apiAsks("other", "900m"))
				k := m.start(t, small(t), s.inCluster)
				pass(5 * time.Second)
				s.bind(apiAsks("grows", "1200m"))
				pass(2 * time.Second)
				if got := s.pendingResize(apiPod("grows")); got != "Deferred" || m.shares(t, "grows") != 512 {
					t.Fatalf("resize is %q with %d shares, want it deferred with 512", got, m.shares(t, "grows"))
				}
				k.end()
				m.start(t, small(t), s.inCluster)
				pass(7 * time.Second) // between two of the attempts each half a minute
				tc.room(s)
				pass(5 * time.Second)
				if got := s.pendingResize(apiPod("grows")); got != "" || m.shares(t, "grows") != 1228 {
					t.Errorf("resize is %q with %d shares, want 1228", got, m.shares(t, "grows"))
				}
				s.bind(apiAsks("grows", "1900m"))
				pass(5 * time.Second)
				if got := s.pendingResize(apiPod("grows")); got != "Infeasible" || m.shares(t, "grows") != 1228 {
					t.Errorf("resize beyond the node is %q with %d shares, want it infeasible with 1228", got, m.shares(t, "grows"))
				}
			})
		})
	}
}

// TestPodThatWaitsForAResizeHoldsWhatItHas: a new pod finds the room that the other one
// has not been given.
func TestPodThatWaitsForAResizeHoldsWhatItHas(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := newAPIServer()
		s.bind(apiAsks("grows", "500m"), apiAsks("other", "500m"))
		m.start(t, small(t), s.inCluster)
		pass(5 * time.Second)
		s.bind(apiAsks("grows", "1200m"))
		pass(2 * time.Second)
		s.bind(apiAsks("late", "400m"))
		pass(5 * time.Second)
		if got := s.phase("uid-late"); got != corev1.PodRunning {
			t.Errorf("the new pod is %s, want Running", got)
		}
	})
}
