package podsync_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestEphemeralContainerThatDoesNotStart is not tried again, and says for good why it
// does not run.
func TestEphemeralContainerThatDoesNotStart(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := newPod("debugged")
		a.add(pod)
		pass(2 * time.Second)
		app, err := m.ContainerID("default/debugged", "app")
		if err != nil {
			t.Fatal(err)
		}
		m.Inject("StartContainer", runtimetest.Fault{
			Match: func(req proto.Message) bool { return req.(*runtimeapi.StartContainerRequest).GetContainerId() != app },
			Err:   status.Error(codes.Unknown, "no such program"),
		})
		edited := pod.DeepCopy()
		edited.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: shell}}}
		a.add(edited)
		for range 3 {
			pass(time.Minute)
			a.pool.Wake(pod.UID)
			pass(time.Second)
			got := a.status(pod).EphemeralContainerStatuses[0].State.Waiting
			if got == nil || got.Reason != "RunContainerError" || !strings.Contains(got.Message, "no such program") {
				t.Errorf("the ephemeral container waits for %+v, want the reason why it did not start", got)
			}
		}
		if got := len(m.Calls("StartContainer")); got != 2 {
			t.Errorf("%d starts, want one of each container", got)
		}
	})
}
