package podsync

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// TestPlanAfterARebootIntoThePast has a node without a clock of its own come up earlier
// than it went down: the run of now is the newest, although the one that died with the
// power was made later.
func TestPlanAfterARebootIntoThePast(t *testing.T) {
	died := exited("a", "a0", 137, time.Minute, 0)
	died.SandboxID, died.CreatedAt = "s0", noon.Add(time.Hour)
	now := instance("a", "a1", 1, podstatus.StateRunning)
	now.SandboxID = "s1"
	b := running("b", "b0")
	b.SandboxID = "s1"
	c := planCase{seen: podstatus.Observed{
		Sandboxes:  []podstatus.Sandbox{deadSandbox("s0", 0), ready("s1", 1)},
		Containers: []podstatus.Instance{died, now, b},
	}}
	c.run(t) // nothing to do

	now.State, now.FinishedAt, now.ExitCode = podstatus.StateExited, noon.Add(-time.Second), 3
	seen := podstatus.Observed{Sandboxes: c.seen.Sandboxes, Containers: []podstatus.Instance{died, now, b}}
	seen.Sort()
	st := podstatus.Compute(podstatus.Input{Pod: twoContainers(), Observed: &seen, Now: noon}).ContainerStatuses[0]
	if now, before := st.State.Terminated, st.LastTerminationState.Terminated; now == nil || before == nil || now.ExitCode != 3 || before.ExitCode != 137 || st.RestartCount != 1 {
		t.Errorf("status is %+v, want restarted once, ended with 3 and before with 137", st)
	}
}

// TestThinAfterTheClockWasSetBack keeps the newest run, not the one of the latest time.
func TestThinAfterTheClockWasSetBack(t *testing.T) {
	dead := graveyard("a/x", "a/x", "b/x")
	dead[0].Metadata.Attempt, dead[1].Metadata.Attempt = 5, 4
	all := corpses(dead, noon.Add(time.Hour))
	_, surplus := thin(all, 9, 1)
	var got []string
	for _, c := range surplus {
		got = append(got, c.ID)
	}
	if diff := cmp.Diff([]string{"a/x#1"}, got); diff != "" {
		t.Errorf("what goes (-want +got):\n%s", diff)
	}
}
