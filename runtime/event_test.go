package runtime

import (
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func TestNewEvent(t *testing.T) {
	labelled := &runtimeapi.PodSandboxStatus{
		Labels:   map[string]string{labelPodUID: "label"},
		Metadata: &runtimeapi.PodSandboxMetadata{Uid: "metadata"},
	}
	for _, c := range []struct {
		name string
		sent *runtimeapi.ContainerEventResponse
		want Event
	}{
		{"nothing is told", &runtimeapi.ContainerEventResponse{}, Event{Type: EventCreated, At: time.Unix(0, 0)}},
		{
			"the label names the pod",
			&runtimeapi.ContainerEventResponse{ContainerId: "c", CreatedAt: 7, ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, PodSandboxStatus: labelled},
			Event{Type: EventDeleted, ID: "c", PodUID: "label", At: time.Unix(0, 7)},
		},
		{
			"the metadata names the pod",
			&runtimeapi.ContainerEventResponse{PodSandboxStatus: &runtimeapi.PodSandboxStatus{Metadata: labelled.GetMetadata()}},
			Event{Type: EventCreated, PodUID: "metadata", At: time.Unix(0, 0)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := newEvent(c.sent); got != c.want {
				t.Errorf("event is %+v, want %+v", got, c.want)
			}
		})
	}
}
