package podsync_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestNoRunBesideOneThatWillNotStop edits an image while the runtime stops nothing:
// the new run has to wait, and starts once the old one has stopped.
func TestNoRunBesideOneThatWillNotStop(t *testing.T) {
	bubble(t, func(m *machine) {
		m.SetImage(runtimetest.Image{Name: "img.example/shell:2"})
		a := m.agent(m.t)
		pod := newPod("web")
		a.add(pod)
		pass(5 * time.Second)

		m.Inject("StopContainer", runtimetest.Fault{Err: status.Error(codes.Unavailable, "not now")})
		edited := pod.DeepCopy()
		edited.Spec.Containers[0].Image = "img.example/shell:2"
		a.add(edited)
		pass(40 * time.Second)
		if n := len(m.Calls("CreateContainer")); n != 1 {
			m.t.Errorf("%d containers made while the first still runs, want 1", n)
		}
		m.ClearFaults()
		pass(30 * time.Second)
		if n := len(m.Calls("StartContainer")); n != 2 {
			m.t.Errorf("%d containers started once the first could be stopped, want 2", n)
		}
	})
}

// TestContainerThatLeftTheSpecIsStopped keeps the UID and drops a container.
func TestContainerThatLeftTheSpecIsStopped(t *testing.T) {
	bubble(t, func(m *machine) {
		a := m.agent(m.t)
		sleep := []string{"sh", "-c", "sleep 3600"}
		pod := newPod("web",
			corev1.Container{Name: "app", Image: shell, Command: sleep},
			corev1.Container{Name: "old", Image: shell, Command: sleep})
		a.add(pod)
		pass(5 * time.Second)
		old, err := m.ContainerID("default/web", "old")
		if err != nil {
			m.t.Fatal(err)
		}
		edited := pod.DeepCopy()
		edited.Spec.Containers = edited.Spec.Containers[:1]
		a.add(edited)
		pass(40 * time.Second)
		st, err := a.client.ContainerStatus(m.t.Context(), old, false)
		if err != nil || st.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
			m.t.Errorf("container that left the spec is %s (%v), want exited", st.GetStatus().GetState(), err)
		}
		if n := len(m.Calls("StopContainer")); n != 1 {
			m.t.Errorf("%d containers stopped, want 1", n)
		}
	})
}

// TestUnknownContainerMayStillRun has the runtime lose the state of a container that
// is never to be restarted: the pod has not ended before the container was stopped,
// and it does not run again.
func TestUnknownContainerMayStillRun(t *testing.T) {
	bubble(t, func(m *machine) {
		a := m.agent(m.t)
		pod := newPod("web")
		pod.Spec.RestartPolicy = corev1.RestartPolicyNever
		a.add(pod)
		pass(5 * time.Second)
		m.Inject("StopContainer", runtimetest.Fault{Err: status.Error(codes.Unavailable, "not now")})
		m.Inject("ContainerStatus", runtimetest.Fault{Edit: func(msg proto.Message) {
			if resp, ok := msg.(*runtimeapi.ContainerStatusResponse); ok && resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				resp.Status.State = runtimeapi.ContainerState_CONTAINER_UNKNOWN
			}
		}})
		a.pool.Wake(pod.UID)
		pass(20 * time.Second)
		if st := a.status(pod); st.Phase != corev1.PodRunning {
			m.t.Errorf("phase %s while the container may run, want Running", st.Phase)
		}
		m.ClearFaults()
		pass(time.Minute)
		if n := len(m.Calls("CreateContainer")); n != 1 {
			m.t.Errorf("%d containers made, want 1", n)
		}
	})
}
