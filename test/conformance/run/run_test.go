package run

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// fakeSuite is an environment whose specs end as its table says: the first state at the
// first run of a spec, and so on.
type fakeSuite struct {
	states  map[string][]conformance.State
	asked   [][]string
	stopped int
	err     error
}

func (f *fakeSuite) run(_ context.Context, _ string, specs []string, add func(conformance.Result) error) ([]string, error) {
	f.asked = append(f.asked, specs)
	for _, spec := range specs {
		if states := f.states[spec]; len(states) > 0 {
			f.states[spec] = states[1:]
			if err := add(conformance.Result{Spec: spec, State: states[0]}); err != nil {
				return nil, err
			}
		}
	}
	return nil, f.err
}

func (f *fakeSuite) versions(context.Context) ([]string, error) { return []string{"fake 1"}, nil }

func (f *fakeSuite) stop(context.Context) error {
	f.stopped++
	return nil
}

// testRunner is a runner for the fake, past the choice of specs.
func testRunner(t *testing.T, suite *fakeSuite, kubelet conformance.Whose, specs ...string) *runner {
	t.Helper()
	set := conformance.Set{Name: "set", Part: conformance.Node}
	r := newRunner(Config{Set: set, Kit: conformance.Kit{Kubelet: kubelet, Proxy: conformance.Stock, Runtime: "fake"}, Dir: t.TempDir()})
	r.dir, r.specs = t.TempDir(), specs
	r.start = func(context.Context, Config, string) (environment, error) { return suite, nil }
	var err error
	r.journal, err = conformance.OpenJournal(r.journalPath(), conformance.Heading{Set: "set"}, specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.journal.Close() })
	return r
}

func outcomeOf(t *testing.T, r *runner) Outcome {
	t.Helper()
	outcome, err := r.outcome(r.journal.Past())
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func TestRunGoesOnWithWhatIsMissing(t *testing.T) {
	suite := &fakeSuite{states: map[string][]conformance.State{"b": {conformance.Passed}}}
	r := testRunner(t, suite, conformance.Stock, "a", "b")
	if err := r.journal.Add(conformance.Result{Spec: "a", State: conformance.Passed}); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"b"}}, suite.asked); diff != "" {
		t.Errorf("specs that ran (-want +got):\n%s", diff)
	}
	outcome := outcomeOf(t, r)
	if !outcome.Whole() || outcome.Verdict.Failed() {
		t.Errorf("the run is not whole or has failed: %+v", outcome.Verdict)
	}
	if !slices.Contains(outcome.Record.Versions, "fake 1") {
		t.Errorf("versions %v, want the runtime's among them", outcome.Record.Versions)
	}
	suite.asked = nil
	if err := r.finish(t.Context()); err != nil || suite.asked != nil {
		t.Errorf("a whole run runs %v again, %v", suite.asked, err)
	}
}

// TestSpecThatFailsHasASecondChance: with ours as with the stock binaries, unless the stock
// binaries always fail it.
func TestSpecThatFailsHasASecondChance(t *testing.T) {
	stock := conformance.Runs{{Versions: []string{"fake 1"}, Results: []conformance.Result{
		{Spec: "hopeless", State: conformance.Failed}, {Spec: "steady", State: conformance.Passed},
	}}}
	for _, test := range []struct {
		name    string
		kubelet conformance.Whose
		second  conformance.State
		lost    bool
	}{
		{"ours takes it", conformance.Ours, conformance.Passed, false},
		{"ours fails again", conformance.Ours, conformance.Failed, true},
		{"stock takes it", conformance.Stock, conformance.Passed, false},
		{"stock fails again", conformance.Stock, conformance.Failed, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite := &fakeSuite{states: map[string][]conformance.State{
				"hopeless": {conformance.Failed, conformance.Passed}, "new": {conformance.Failed, conformance.Failed},
				"steady": {conformance.Failed, test.second},
			}}
			r := testRunner(t, suite, test.kubelet, "hopeless", "new", "steady")
			r.stock = stock
			if err := r.finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{{"hopeless", "new", "steady"}, {"new", "steady"}}, suite.asked); diff != "" {
				t.Errorf("specs that ran (-want +got):\n%s", diff)
			}
			// Without a ratchet, what the stock binaries always pass must pass.
			if got := outcomeOf(t, r).Verdict; got.Failed() != test.lost || len(got.Lost) > 1 {
				t.Errorf("lost %v, want one lost: %v", got.Lost, test.lost)
			}
		})
	}
}

// TestResultsOfAnotherHostDoNotCount: neither does a limit that they show excuse a spec,
// nor must pass what passed there, and the run says so.
func TestResultsOfAnotherHostDoNotCount(t *testing.T) {
	const limited = "[sig-node] PrivilegedPod should enable privileged commands [LinuxOnly]"
	for _, test := range []struct {
		name, runtime, socket string
		notes                 []string
		failed                bool
	}{
		{"this host", "fake 1", "fake", nil, true},
		{"another runtime", "fake 2", "fake", []string{"fake 2, not fake 1", "PrivilegedPod"}, false},
		{"containerd for the runtime of somebody else", "containerd 1.6", "/run/fake.sock", []string{"PrivilegedPod"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite := &fakeSuite{states: map[string][]conformance.State{
				limited: {conformance.Passed}, "a": {conformance.Failed, conformance.Failed},
			}}
			r := testRunner(t, suite, conformance.Ours, limited, "a")
			r.cfg.Kit.Runtime = test.socket
			r.stock = conformance.Runs{{Versions: []string{test.runtime}, Results: []conformance.Result{
				{Spec: limited, State: conformance.Failed, Message: "Unknown device type."}, {Spec: "a", State: conformance.Passed},
			}}}
			var said []string
			r.cfg.Progress = func(line string) { said = append(said, line) }
			if err := r.finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			outcome := outcomeOf(t, r)
			if outcome.Verdict.Failed() != test.failed || len(outcome.Notes) != len(test.notes) {
				t.Errorf("lost %v with notes %q, want a loss: %v", outcome.Verdict.Lost, outcome.Notes, test.failed)
			}
			for _, note := range test.notes {
				if !strings.Contains(strings.Join(outcome.Notes, "\n"), note) || !strings.Contains(strings.Join(said, "\n"), note) {
					t.Errorf("no %q among the notes %q or in what the run said: %q", note, outcome.Notes, said)
				}
			}
			if ran, excused := slices.Contains(suite.asked[0], limited), len(test.notes) == 0; ran == excused {
				t.Errorf("the spec that may be a limit ran: %v, want %v", ran, !excused)
			}
		})
	}
}

func TestClusterThatIsTooSmallMaySkip(t *testing.T) {
	for _, test := range []struct {
		name, runtime string
		state         conformance.State
		want          bool
	}{
		{"as many nodes as asked for", "fake", conformance.Skipped, true},
		{"a skip for want of nodes", "/run/fake.sock", conformance.Skipped, false},
		{"a failure", "/run/fake.sock", conformance.Failed, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite := &fakeSuite{states: map[string][]conformance.State{"a": {test.state, test.state}}}
			r := testRunner(t, suite, conformance.Ours, "a")
			r.cfg.Set.Nodes, r.cfg.Kit.Runtime = 2, test.runtime
			r.ratchet = conformance.Ratchet{"a"}
			if err := r.finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := outcomeOf(t, r).Verdict.Failed(); got != test.want {
				t.Errorf("failed is %v, want %v", got, test.want)
			}
		})
	}
}

// TestSequencesRunAsAWhole: what looks at the outcome of another spec runs behind that one,
// also when only it has no result yet, or was lost.
func TestSequencesRunAsAWhole(t *testing.T) {
	groups, err := conformance.ParseGroups(strings.NewReader(`[{"SpecReports": [
		{"LeafNodeType": "It", "LeafNodeText": "first", "ContainerHierarchyLocations": [{"FileName": "a.go", "LineNumber": 1}]},
		{"LeafNodeType": "It", "LeafNodeText": "second", "ContainerHierarchyLocations": [{"FileName": "a.go", "LineNumber": 1}]}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	passed := []conformance.State{conformance.Passed, conformance.Passed}
	suite := &fakeSuite{states: map[string][]conformance.State{
		"first": passed, "second": {conformance.Failed, conformance.Passed}, "other": passed,
	}}
	r := testRunner(t, suite, conformance.Ours, "first", "other", "second")
	r.cfg.Groups, r.ratchet = groups, conformance.Ratchet{"second"}
	if err := r.journal.Add(conformance.Result{Spec: "first", State: conformance.Passed}); err != nil {
		t.Fatal(err)
	}
	if err := r.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := [][]string{{"other", "second", "first"}, {"second", "first"}}
	if diff := cmp.Diff(want, suite.asked); diff != "" {
		t.Errorf("specs that ran (-want +got):\n%s", diff)
	}
}

func TestHostLimitsAreLeftOutOfOurRunsOnly(t *testing.T) {
	const limited = "[sig-node] PrivilegedPod should enable privileged commands [LinuxOnly]"
	for _, test := range []struct {
		kubelet conformance.Whose
		want    []string
	}{
		{conformance.Ours, []string{"a"}},
		{conformance.Stock, []string{limited, "a"}},
	} {
		t.Run(string(test.kubelet), func(t *testing.T) {
			suite := &fakeSuite{states: map[string][]conformance.State{"a": {conformance.Passed}, limited: {conformance.Failed}}}
			r := testRunner(t, suite, test.kubelet, limited, "a")
			r.stock = conformance.Runs{{Versions: []string{"fake 1"}, Results: []conformance.Result{
				{Spec: limited, State: conformance.Failed, Message: "Unknown device type."}, {Spec: "a", State: conformance.Passed},
			}}}
			if err := r.finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{test.want}, suite.asked); diff != "" {
				t.Errorf("specs that ran (-want +got):\n%s", diff)
			}
			if outcome := outcomeOf(t, r); !outcome.Whole() {
				t.Errorf("a spec has no result: %+v", outcome.Verdict.Count)
			}
		})
	}
}

func TestEnvironmentIsStoppedAfterTrouble(t *testing.T) {
	trouble := errors.New("trouble")
	suite := &fakeSuite{err: trouble}
	r := testRunner(t, suite, conformance.Stock, "a")
	if err := r.finish(t.Context()); !errors.Is(err, trouble) {
		t.Errorf("got %v, want the suite's error", err)
	}
	if suite.stopped != 1 {
		t.Errorf("stopped %d times, want once", suite.stopped)
	}
	if !outcomeOf(t, r).Verdict.Failed() {
		t.Error("a run without results has not failed")
	}
}

func TestRuntimeOfSomebodyElseIsOneNode(t *testing.T) {
	set := conformance.Set{Nodes: 2}
	for runtime, want := range map[string]int{"containerd": 2, "containerd2": 2, "/run/crio/crio.sock": 1} {
		if got := nodes(Config{Set: set, Kit: conformance.Kit{Runtime: runtime}}); got != want {
			t.Errorf("%s has %d nodes, want %d", runtime, got, want)
		}
	}
}
