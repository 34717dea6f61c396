package podsync_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestSandboxWithoutAddress runs on a runtime that gives no addresses for a while: no
// container is started without one, sandboxes are tried at the usual pace, and dead
// ones do not pile up.
func TestSandboxWithoutAddress(t *testing.T) {
	bubble(t, func(m *machine) {
		until := time.Now().Add(5 * time.Minute)
		m.Inject("PodSandboxStatus", runtimetest.Fault{Edit: func(msg proto.Message) {
			if resp, ok := msg.(*runtimeapi.PodSandboxStatusResponse); ok && time.Now().Before(until) {
				resp.Status.Network = &runtimeapi.PodSandboxNetworkStatus{}
			}
		}})
		a := m.agent(m.t)
		pod := newPod("web")
		a.add(pod)
		pass(5*time.Minute - time.Second)
		if n := len(m.Calls("StartContainer")); n != 0 {
			m.t.Errorf("%d containers started without an address, want none", n)
		}
		if n := len(m.Calls("RunPodSandbox")); n < 10 || n > 31 {
			m.t.Errorf("%d sandboxes tried in 5 min, want about one in 10 s to 15 s", n)
		}
		list, err := a.client.ListPodSandbox(m.t.Context(), nil)
		if err != nil || len(list) > 2 {
			m.t.Errorf("runtime holds %d sandboxes (%v), want 2 at most", len(list), err)
		}
		pass(time.Minute)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			m.t.Errorf("phase %s once there are addresses, want Running", st.Phase)
		}
	})
}

// TestNetworkNotReady starts a pod before the network of the runtime is ready: it is
// tried again every second, not at the pace of other errors.
func TestNetworkNotReady(t *testing.T) {
	bubble(t, func(m *machine) {
		m.SetNetworkProblem("cni plugin not initialized")
		a := m.agent(m.t)
		pod := newPod("web")
		a.add(pod)
		pass(12 * time.Second)
		if st := a.status(pod); st.Phase != corev1.PodPending {
			m.t.Errorf("phase %s without a network, want Pending", st.Phase)
		}
		if n := len(m.Calls("RunPodSandbox")); n != 0 {
			m.t.Errorf("%d sandboxes asked for without a network, want none", n)
		}
		if n := len(a.told("NetworkNotReady")); n != 1 {
			m.t.Errorf("%d events NetworkNotReady, want 1", n)
		}
		m.SetNetworkProblem("")
		pass(1500 * time.Millisecond)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			m.t.Errorf("phase %s 1.5 s after the network is ready, want Running", st.Phase)
		}
	})
}

// TestHostNetworkNeedsNoNetwork starts a pod on the network of the node while the
// network of pods is not ready.
func TestHostNetworkNeedsNoNetwork(t *testing.T) {
	bubble(t, func(m *machine) {
		m.SetNetworkProblem("cni plugin not initialized")
		a := m.agent(m.t)
		pod := newPod("web")
		pod.Spec.HostNetwork = true
		a.add(pod)
		pass(2 * time.Second)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			m.t.Errorf("phase %s, want Running", st.Phase)
		}
	})
}
