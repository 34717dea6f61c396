package conformance

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func openTestJournal(t *testing.T, path string, heading Heading, specs ...string) *Journal {
	t.Helper()
	j, err := OpenJournal(path, heading, specs)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	return j
}

func addTo(t *testing.T, j *Journal, spec string) {
	t.Helper()
	if err := j.Add(Result{Spec: spec, State: Passed}); err != nil {
		t.Fatal(err)
	}
}

func TestKilledRunGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	heading := Heading{Set: "quick", Kit: "stock", Versions: []string{"kubernetes v1.37.2"}}
	first := openTestJournal(t, path, heading, "a", "b", "c")
	addTo(t, first, "a")
	if err := first.AddStretch(Stretch{Wall: time.Minute, Load: 3, Procs: 6}); err != nil {
		t.Fatal(err)
	}
	// The machine stops in the middle of a line.
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(data, `{"result":{"spec":"b","sta`...), 0o600); err != nil {
		t.Fatal(err)
	}
	second := openTestJournal(t, path, heading, "a", "b", "c")
	if diff := cmp.Diff([]string{"b", "c"}, Missing([]string{"a", "b", "c"}, second.Past().Results)); diff != "" {
		t.Errorf("still to run (-want +got):\n%s", diff)
	}
	if wall := second.Past().Wall; wall != time.Minute {
		t.Errorf("the run has taken %s, want 1m", wall)
	}
	if err := second.AddStretch(Stretch{Wall: 3 * time.Minute, Load: 1, Procs: 6}); err != nil {
		t.Fatal(err)
	}
	if got, want := second.Past().Stretch, (Stretch{Wall: 4 * time.Minute, Load: 1.5, Procs: 6}); got != want {
		t.Errorf("the run was %+v, want %+v: the mean load by time", got, want)
	}
	addTo(t, second, "b")
	third := openTestJournal(t, path, heading, "a", "b", "c")
	want := []Result{{Spec: "a", State: Passed}, {Spec: "b", State: Passed}}
	if diff := cmp.Diff(want, third.Past().Results); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestNewRunBegins(t *testing.T) {
	heading := Heading{Set: "quick", Kit: "stock", Versions: []string{"kernel 1"}, Build: []string{"kubelet 1"}}
	for _, test := range []struct {
		name    string
		heading Heading
		specs   []string
	}{
		{"when the last one is whole", heading, []string{"a"}},
		{"with another version", Heading{Set: "quick", Kit: "stock", Versions: []string{"kernel 2"}}, []string{"a", "b"}},
		{"with other specs", Heading{Set: "quick", Kit: "stock", Versions: heading.Versions, Build: heading.Build, Focus: "a"}, []string{"a", "b"}},
		{"with another build", Heading{Set: "quick", Kit: "stock", Versions: heading.Versions, Build: []string{"kubelet 2"}}, []string{"a", "b"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "journal")
			addTo(t, openTestJournal(t, path, heading, "a"), "a")
			if got := openTestJournal(t, path, test.heading, test.specs...).Past().Results; len(got) != 0 {
				t.Errorf("it begins with %v", got)
			}
			if _, err := os.Stat(path + ".previous"); err != nil {
				t.Errorf("the results before are gone: %v", err)
			}
		})
	}
}

func TestRunGoesOnAtAnotherCommitOfTheSameBuild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	heading := Heading{Set: "quick", Kit: "ours", Build: []string{"kubelet 1"}, Commit: "abc", Began: time.Unix(1, 0).UTC()}
	addTo(t, openTestJournal(t, path, heading, "a", "b"), "a")
	later := heading
	later.Commit, later.Began = "def", time.Unix(2, 0).UTC()
	past := openTestJournal(t, path, later, "a", "b").Past()
	if len(past.Results) != 1 {
		t.Errorf("it begins with %v, want the result of a", past.Results)
	}
	if diff := cmp.Diff(heading, past.Heading); diff != "" {
		t.Errorf("heading (-want +got):\n%s", diff)
	}
}

func TestStretchesAddUp(t *testing.T) {
	hour := Stretch{Wall: time.Hour, Load: 2, Procs: 6}
	for _, test := range []struct {
		name      string
		one, more Stretch
		want      Stretch
	}{
		{"the first", Stretch{}, hour, hour},
		{"no time", hour, Stretch{}, hour},
		{"nothing", Stretch{}, Stretch{Load: 1, Procs: 6}, Stretch{}},
		{"another load", hour, Stretch{Wall: 3 * time.Hour, Load: 6, Procs: 6}, Stretch{Wall: 4 * time.Hour, Load: 5, Procs: 6}},
		{"more specs at a time", hour, Stretch{Wall: time.Hour, Load: 2, Procs: 8}, Stretch{Wall: 2 * time.Hour, Load: 2}},
		{"not known before", Stretch{Wall: time.Hour, Load: 2}, hour, Stretch{Wall: 2 * time.Hour, Load: 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := test.one.plus(test.more); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestJournalOfEarlierRunsIsRead: their lines lack what came later.
func TestJournalOfEarlierRunsIsRead(t *testing.T) {
	past := parseJournal([]byte("{\"set\":\"quick\",\"kit\":\"stock\",\"versions\":null}\n" +
		"{\"result\":{\"spec\":\"a\",\"state\":\"passed\"}}\n{\"wall\":60000000000,\"load\":2}\n{\"runtime\":[\"fake 1\"]}\n"))
	want := Past{
		Heading: Heading{Set: "quick", Kit: "stock"}, Results: []Result{{Spec: "a", State: Passed}},
		Stretch: Stretch{Wall: time.Minute, Load: 2}, Runtime: []string{"fake 1"},
	}
	if diff := cmp.Diff(want, past); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

func FuzzParseJournal(f *testing.F) {
	f.Add([]byte("{\"set\":\"quick\"}\n{\"result\":{\"spec\":\"a\",\"state\":\"passed\"}}\n{\"wall\":5}\n"))
	f.Add([]byte("{}\n{\"wall\":-1}\nx\n{\"result\":{\"spec\":\"\",\"state\":\"passed\"}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, r := range parseJournal(data).Results {
			if _, err := parseState(string(r.State)); err != nil || r.Spec == "" {
				t.Errorf("%+v: %v", r, err)
			}
		}
	})
}
