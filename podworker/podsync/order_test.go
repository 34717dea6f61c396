package podsync_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestSidecarsEndLastWithoutTime has nothing left of the grace period when the containers
// of a pod are stopped: those that serve others still end after them.
func TestSidecarsEndLastWithoutTime(t *testing.T) {
	tests := []struct {
		name  string
		grace int64
		hook  bool
	}{
		{name: "hooks took all of it", grace: 10, hook: true},
		{name: "there was none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(m *machine) {
				t := m.t
				m.Inject("ExecSync", runtimetest.Fault{Delay: time.Minute})
				for _, name := range []string{"app", "first", "second"} {
					m.SetLives(name, runtimetest.Life{IgnoreTerm: true})
				}
				always := corev1.ContainerRestartPolicyAlways
				pod := newPod("served")
				pod.Spec.TerminationGracePeriodSeconds = &tt.grace
				pod.Spec.InitContainers = []corev1.Container{
					{Name: "first", Image: shell, RestartPolicy: &always}, {Name: "second", Image: shell, RestartPolicy: &always},
				}
				if tt.hook {
					hook := &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"drain"}}}}
					pod.Spec.Containers[0].Lifecycle, pod.Spec.InitContainers[0].Lifecycle, pod.Spec.InitContainers[1].Lifecycle = hook, hook, hook
				}
				a := m.agent(t)
				a.add(pod)
				pass(5 * time.Second)
				ids := map[string]string{}
				for _, name := range []string{"app", "first", "second"} {
					id, err := m.ContainerID("default/served", name)
					if err != nil {
						t.Fatal(err)
					}
					ids[id] = name
				}
				a.remove(pod)
				pass(time.Minute)
				var ended time.Time
				stops := m.Calls("StopContainer")
				for i, want := range []string{"app", "second", "first"} {
					if len(stops) != 3 {
						t.Fatalf("%d stops, want 3", len(stops))
					}
					if got := ids[stops[i].Request.(*runtimeapi.StopContainerRequest).GetContainerId()]; got != want || stops[i].Began.Before(ended) {
						t.Errorf("stop %d is of %s, %s after the one before it ended, want %s, later", i, got, stops[i].Began.Sub(ended), want)
					}
					ended = stops[i].Ended
				}
			})
		})
	}
}
