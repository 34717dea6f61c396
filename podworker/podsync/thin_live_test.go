package podsync_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// dead returns the dead containers of a pod in the runtime.
func (m *machine) dead(name string) int {
	list, err := m.Client(m.t).ListContainers(m.t.Context(), nil)
	if err != nil {
		m.t.Fatal(err)
	}
	n := 0
	for _, c := range list {
		if c.GetLabels()["io.kubernetes.pod.name"] == name && c.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED {
			n++
		}
	}
	return n
}

// TestThinNode has a pod that crashes again and again and a job that has ended, on a node
// that may keep three dead containers of each container, and two in all.
func TestThinNode(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		var told atomic.Bool
		m.SetLives("app", runtimetest.Exits(0, 1))
		m.SetLives("work", runtimetest.Exits(0, 0))
		a := m.agent(t, func(c *podsync.Config) {
			c.Limits = podsync.Limits{DeadPerContainer: 3, Dead: 2}
			c.Parts.Acknowledged = func(types.UID) bool { return told.Load() }
		})
		job := newPod("job", corev1.Container{Name: "work", Image: shell}, corev1.Container{Name: "work2", Image: shell})
		m.SetLives("work2", runtimetest.Exits(time.Second, 0))
		job.Annotations, job.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
		a.add(job)
		a.add(newPod("crasher"))
		pass(3 * time.Minute)
		if crasher, jobs := m.dead("crasher"), m.dead("job"); crasher != 3 || jobs != 2 {
			t.Fatalf("%d dead containers of the crasher and %d of the job, want 3 and 2", crasher, jobs)
		}
		thin := func() []types.UID {
			t.Helper()
			list, err := a.client.ListContainers(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			crowded, err := a.syncer.Thin(t.Context(), list, func(uid types.UID) bool { return uid == job.UID })
			if err != nil {
				t.Fatal(err)
			}
			return crowded
		}
		if got := thin(); !slices.Equal(got, []types.UID{"uid-crasher"}) {
			t.Errorf("pods that keep too much: %q, want the one that crashes", got)
		}
		if got := m.dead("job"); got != 2 {
			t.Errorf("%d dead containers of the job whose end was not acknowledged, want both", got)
		}
		a.pool.Wake("uid-crasher")
		pass(5 * time.Second)
		if got := m.dead("crasher"); got != 1 {
			t.Errorf("%d dead containers of the crasher after its next sync, want the last", got)
		}
		restarts := a.status(newPod("crasher")).ContainerStatuses[0].RestartCount
		told.Store(true)
		thin()
		if got := m.dead("job"); got != 1 {
			t.Errorf("%d dead containers of the job whose end is known, want one: with that of the other pod there are two", got)
		}
		pass(time.Minute)
		if err := a.syncer.RemoveDead(t.Context(), func(uid types.UID) bool { return uid == job.UID }); err != nil {
			t.Fatal(err)
		}
		if crasher, jobs := m.dead("crasher"), m.dead("job"); crasher != 1 || jobs != 0 {
			t.Errorf("%d dead containers of the crasher and %d of the job, want only the last of the one that lives", crasher, jobs)
		}
		pass(5 * time.Minute)
		if now := a.status(newPod("crasher")).ContainerStatuses[0].RestartCount; now <= restarts {
			t.Errorf("restarts went from %d to %d, want more", restarts, now)
		}
	})
}
