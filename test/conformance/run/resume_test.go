package run

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// killedDir makes this test binary a run that is killed, and names its folder.
const killedDir = "NODEKIT_KILLED_RUN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		hang(dir)
	}
	os.Exit(m.Run())
}

// hangingSuite passes the first spec, says so, and never ends.
type hangingSuite struct{ fakeSuite }

func (h *hangingSuite) run(_ context.Context, _ string, specs []string, add func(conformance.Result) error) ([]string, error) {
	if err := add(conformance.Result{Spec: specs[0], State: conformance.Passed}); err != nil {
		return nil, err
	}
	os.Stdout.WriteString("one has passed\n")
	select {}
}

// runnerIn is a runner for the environment whose journal is in dir.
func runnerIn(dir string, env environment, specs ...string) (*runner, error) {
	r := newRunner(Config{Set: conformance.Set{Name: "set"}, Kit: conformance.Kit{Kubelet: conformance.Ours, Proxy: conformance.Stock, Runtime: "fake"}})
	r.dir, r.specs = dir, specs
	r.start = func(context.Context, Config, string) (environment, error) { return env, nil }
	var err error
	r.journal, err = conformance.OpenJournal(r.journalPath(), conformance.Heading{Set: "set"}, specs)
	return r, err
}

// hang runs until it is killed.
func hang(dir string) {
	r, err := runnerIn(dir, &hangingSuite{}, "a", "b", "c")
	if err == nil {
		err = r.finish(context.Background())
	}
	os.Stderr.WriteString(err.Error())
	os.Exit(1)
}

func TestRunThatWasKilledInTheMiddleGoesOn(t *testing.T) {
	dir := t.TempDir()
	first := exec.CommandContext(t.Context(), os.Args[0])
	first.Env = append(os.Environ(), killedDir+"="+dir)
	out, err := first.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Errorf("the run said %q, %v", line, err)
	}
	if err := first.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := first.Wait(); err == nil {
		t.Fatal("the run ended by itself")
	}

	suite := &fakeSuite{states: map[string][]conformance.State{"b": {conformance.Passed}, "c": {conformance.Passed}}}
	second, err := runnerIn(dir, suite, "a", "b", "c")
	if err != nil {
		t.Fatal(err)
	}
	defer second.journal.Close()
	if err := second.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"b", "c"}}, suite.asked); diff != "" {
		t.Errorf("specs that ran after the kill (-want +got):\n%s", diff)
	}
	if outcome := outcomeOf(t, second); !outcome.Whole() || outcome.Verdict.Count.Passed != 3 {
		t.Errorf("got %+v, want three specs that passed", outcome.Verdict.Count)
	}
}

// withPrograms writes a kubelet of the given content where the run keeps its programs,
// and returns what it is called.
func withPrograms(t *testing.T, r *runner, content string) []string {
	t.Helper()
	if err := os.MkdirAll(r.buildDir(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.buildDir(), "kubelet"), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	sums, err := r.sums(r.buildDir())
	if err != nil {
		t.Fatal(err)
	}
	return sums
}

func TestResumeTakesTheProgramsThatTheRunBeganWith(t *testing.T) {
	r := testRunner(t, &fakeSuite{}, conformance.Ours, "a", "b")
	build := withPrograms(t, r, "one")
	one := []conformance.Result{{Spec: "a", State: conformance.Passed}}
	heading := conformance.Heading{Set: "set", Versions: []string{"kernel 6"}, Build: build}
	other := heading
	other.Build = []string{"kubelet 000000000000"}
	narrow := heading
	narrow.Focus = "a"
	for _, test := range []struct {
		name   string
		past   conformance.Past
		others []string
		err    string
	}{
		{"they are there", conformance.Past{Heading: heading, Results: one}, []string{"kernel 6"}, ""},
		{"another kernel", conformance.Past{Heading: heading, Results: one}, []string{"kernel 7"}, "began with kernel 6"},
		{"another build", conformance.Past{Heading: other, Results: one}, []string{"kernel 6"}, "began with kubelet 000000000000"},
		{"other specs", conformance.Past{Heading: narrow, Results: one}, []string{"kernel 6"}, `FOCUS="a"`},
		{"no run", conformance.Past{}, []string{"kernel 6"}, "no run to go on with"},
		{
			"a whole run",
			conformance.Past{Heading: heading, Results: append(one, conformance.Result{Spec: "b", State: conformance.Failed})},
			[]string{"kernel 6"},
			"no run to go on with",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := r.resumed(test.past, test.others)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got %v, want an error with %q", err, test.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(heading, got); diff != "" {
				t.Errorf("heading (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBuildIsNamedByItsContent(t *testing.T) {
	r := testRunner(t, &fakeSuite{}, conformance.Ours, "a")
	one, again, other := withPrograms(t, r, "one"), withPrograms(t, r, "one"), withPrograms(t, r, "other")
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("the same program (-want +got):\n%s", diff)
	}
	if cmp.Equal(one, other) {
		t.Errorf("two programs are both %v", one)
	}
}

func TestOurPrograms(t *testing.T) {
	for _, test := range []struct {
		name           string
		suite          conformance.Suite
		kubelet, proxy conformance.Whose
		want           []string
	}{
		{"stock", conformance.E2E, conformance.Stock, conformance.Stock, nil},
		{"both", conformance.E2E, conformance.Ours, conformance.Ours, []string{"kubelet", "kube-proxy"}},
		{"kube-proxy", conformance.E2E, conformance.Stock, conformance.Ours, []string{"kube-proxy"}},
		{"the kubelet's own suite has no kube-proxy", conformance.E2ENode, conformance.Ours, conformance.Ours, []string{"kubelet"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ourPrograms(conformance.Set{Suite: test.suite}, conformance.Kit{Kubelet: test.kubelet, Proxy: test.proxy})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewRunSaysWhatItGivesUp(t *testing.T) {
	r := testRunner(t, &fakeSuite{}, conformance.Ours, "a", "b")
	var lines []string
	r.cfg.Progress = func(line string) { lines = append(lines, line) }
	now := conformance.Heading{Set: "set", Build: []string{"kubelet 2"}}
	past := conformance.Past{Heading: now, Results: []conformance.Result{{Spec: "a", State: conformance.Passed}}}
	r.sayWhatIsGivenUp(past, now)
	r.sayWhatIsGivenUp(conformance.Past{}, now)
	if lines != nil {
		t.Errorf("a run that goes on, or is the first, says %q", lines)
	}
	past.Heading.Build = []string{"kubelet 1"}
	r.sayWhatIsGivenUp(past, now)
	if len(lines) != 1 || !strings.Contains(lines[0], "1 results") || !strings.Contains(lines[0], "kubelet 1") {
		t.Errorf("got %q, want a line with the number of results and the build", lines)
	}
	past.Heading = now
	past.Heading.Focus = "a|b"
	r.sayWhatIsGivenUp(past, now)
	if len(lines) != 2 || !strings.Contains(lines[1], `FOCUS="a|b"`) {
		t.Errorf("got %q, want a second line with the specs of the run before", lines)
	}
}

func TestNarrowedRunHasAJournalOfItsOwn(t *testing.T) {
	set, kit := conformance.Set{Name: "set"}, conformance.Kit{Kubelet: conformance.Ours, Runtime: "fake"}
	whole := newRunner(Config{Set: set, Kit: kit, Dir: "out"})
	for _, cfg := range []Config{
		{Set: set, Kit: kit, Dir: "out", Focus: "a"},
		{Set: set, Kit: kit, Dir: "out", Skip: "a"},
	} {
		r := newRunner(cfg)
		if r.journalPath() == whole.journalPath() || r.buildDir() == whole.buildDir() {
			t.Errorf("FOCUS=%q SKIP=%q: journal %s and programs %s are those of the whole set", cfg.Focus, cfg.Skip, r.journalPath(), r.buildDir())
		}
		if outcome, err := r.outcome(conformance.Past{}); err != nil || outcome.Whole() {
			t.Errorf("FOCUS=%q SKIP=%q: it counts as whole, %v", cfg.Focus, cfg.Skip, err)
		}
	}
	if outcome, err := whole.outcome(conformance.Past{}); err != nil || !outcome.Whole() {
		t.Errorf("the whole set does not count as whole, %v", err)
	}
}

func TestStandaloneSpecsRunOneByOne(t *testing.T) {
	for standalone, want := range map[bool]int{true: 1, false: 8} {
		if got := newRunner(Config{Set: conformance.Set{Standalone: standalone}, Procs: 8}).cfg.Procs; got != want {
			t.Errorf("standalone %v: %d specs at a time, want %d", standalone, got, want)
		}
	}
}

func TestRunHasOneRuntime(t *testing.T) {
	r := testRunner(t, &fakeSuite{}, conformance.Stock, "a")
	for range 2 {
		if err := r.noteRuntime(t.Context(), &fakeSuite{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.journal.SetRuntime([]string{"fake 0"}); err != nil {
		t.Fatal(err)
	}
	if err := r.noteRuntime(t.Context(), &fakeSuite{}); err == nil || !strings.Contains(err.Error(), "fake 0") {
		t.Errorf("got %v, want an error that names the runtime the run began on", err)
	}
}

// commit makes a commit in the working directory and returns its name.
func commit(t *testing.T, name string) string {
	t.Helper()
	for _, args := range [][]string{
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "-q", "--allow-empty", "-m", name},
		{"rev-parse", "--short", "HEAD"},
	} {
		out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
		name = strings.TrimSpace(string(out))
	}
	return name
}

// TestCommitTellsOfWhatDiffers: files that git does not know and such that are no Go count,
// documents and records do not.
func TestCommitTellsOfWhatDiffers(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	head := commit(t, "one")
	put := func(path, content string) {
		t.Helper()
		path = filepath.Join(dir, path)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("docs/page.svg", "a")
	put("cni/README.md", "a")
	put("test/conformance/results/set/kit/run.txt", "a")
	put("test/conformance/ratchet/set/kit.txt", "a")
	if got := workingTree(t.Context()); got != head {
		t.Errorf("with documents and records the commit is %q, want %q", got, head)
	}
	put("examples/kubelet/gates.txt", "one")
	one := workingTree(t.Context())
	put("examples/kubelet/gates.txt", "other")
	t.Chdir(filepath.Join(dir, "examples", "kubelet"))
	other := workingTree(t.Context())
	if !strings.HasPrefix(one, head+"+") || !strings.HasPrefix(other, head+"+") || one == other {
		t.Errorf("with a file that differs the commits are %q and %q, want two sums behind %q", one, other, head)
	}
}

func TestCommitIsUnknownOutsideOfGit(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(dir))
	if got := workingTree(t.Context()); got != unknownCommit {
		t.Errorf("got %q, want %q", got, unknownCommit)
	}
}

func TestRunsInARowAreOfTheSameBuildOrLaterOnes(t *testing.T) {
	t.Chdir(t.TempDir())
	if out, err := exec.CommandContext(t.Context(), "git", "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	first, second := commit(t, "one"), commit(t, "two")
	of := func(commit string) conformance.Record {
		return conformance.Record{Date: time.Unix(1, 0), Versions: []string{"kernel 6", "nodekit " + commit}}
	}
	for _, test := range []struct {
		name          string
		recorded, run conformance.Record
		want          bool
	}{
		{"nothing is recorded", conformance.Record{}, of(first), true},
		{"the same", of(first), of(first), true},
		{"with changes", of(first + "+0123"), of(first + "+4567"), true},
		{"a later one", of(first), of(second), true},
		{"an earlier one", of(second), of(first), false},
		{"git has forgotten", of("0123abc"), of(second), true},
		{"git tells no commit", of(first), of(unknownCommit), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := CheckLater(t.Context(), test.recorded, test.run)
			if got := err == nil; got != test.want {
				t.Errorf("got %v, want it to be recorded: %v", err, test.want)
			}
		})
	}
}
