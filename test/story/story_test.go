package story

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// happened is a short story: b starts after the end of a, and ends by itself.
func happened() []Event {
	return []Event{
		{At: 0, Who: "pod", What: "is Pending"},
		{At: time.Second, Who: "a", Run: 1, What: "starts"},
		{At: 2 * time.Second, Who: "a", Run: 1, What: "exits with 0"},
		{At: 2 * time.Second, Who: "b", Run: 1, What: "starts"},
		{At: 3 * time.Second, Who: "b", Run: 1, What: "preStop"},
		{At: 4 * time.Second, Who: "b", Run: 1, What: "preStop ends"},
		{At: 5 * time.Second, Who: "b", Run: 1, What: "exits with 1"},
		{At: 6 * time.Second, Who: "b", Run: 2, What: "starts"},
		{At: 7 * time.Second, Who: "c", Run: 1, What: "starts"},
		{At: 8 * time.Second, Who: "pod", What: "is Running and ready"},
	}
}

func TestCheck(t *testing.T) {
	tests := []struct{ holds, fails string }{
		{holds: "a starts before b starts", fails: "b starts before a starts"},
		{holds: "a exits before b starts", fails: "b starts before a exits"}, // at the same time
		{holds: "b#2 starts before c starts", fails: "b#3 starts before c starts"},
		{holds: "b preStop before b exits", fails: "a preStop before a exits"},
		{holds: "b preStop ends within 1s after b preStop", fails: "b preStop ends within 500ms after b preStop"},
		{holds: "b starts 2 times", fails: "b starts 1 times"},
		{holds: "b starts at least 2 times", fails: "b starts at least 3 times"},
		{holds: "d starts never", fails: "a starts never"},
		{holds: "a starts", fails: "d starts"},
		{holds: "b preStop 1 times", fails: "b preStop 2 times"},
		{holds: "b and c run together", fails: "a and b run together"},
		{holds: "b exits with 1", fails: "b exits with 0"},
		{holds: "pod ends Running", fails: "pod ends Pending"},
		{holds: "pod is Pending", fails: "pod is Failed"},
		{holds: "pod is never Failed", fails: "pod is never Pending"},
	}
	for _, tt := range tests {
		if broken := Check(tt.holds, happened(), Slack{}); len(broken) > 0 {
			t.Errorf("%q does not hold: %q", tt.holds, broken)
		}
		if broken := Check(tt.fails, happened(), Slack{}); len(broken) != 1 {
			t.Errorf("%q holds", tt.fails)
		}
	}
}

func TestSlack(t *testing.T) {
	events := []Event{{At: time.Second, Who: "b", Run: 1, What: "starts"}, {At: 1200 * time.Millisecond, Who: "a", Run: 1, What: "starts"}}
	slack := Slack{Order: 200 * time.Millisecond, Time: time.Second}
	tests := []struct {
		sentence string
		holds    bool
	}{
		{"a starts before b starts", false},
		{"b starts before a starts", true},
		{"a starts within 0s after b starts", true},
		{"b starts within 1s after a starts", true},
	}
	for _, tt := range tests {
		if broken := Check(tt.sentence, events, slack); (len(broken) == 0) != tt.holds {
			t.Errorf("%s: %q, want it to hold: %v", tt.sentence, broken, tt.holds)
		}
	}
	slack.Order += time.Millisecond
	if broken := Check("a starts before b starts", events, slack); len(broken) > 0 {
		t.Errorf("with more slack: %q", broken)
	}
}

const example = `A story.
-- pod.yaml --
spec:
  containers:
  - {name: app}
-- script --
life app exits 1 after 2s, ignores TERM; runs out of memory after 1s # twice
probe app startup failure after 3s; success
at 5s delete 3s
until 10s
-- expect --
app starts
`

func TestParse(t *testing.T) {
	s, err := Parse([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	want := []runtimetest.Life{
		{Exit: &runtimetest.Exit{Code: 1, After: 2 * time.Second}, IgnoreTerm: true},
		{Exit: &runtimetest.Exit{OOM: true, After: time.Second}},
	}
	if diff := cmp.Diff(want, s.Lives["app"]); diff != "" {
		t.Errorf("lives (-want +got):\n%s", diff)
	}
	probes := []Probe{{Container: "app", Kind: "startup", Runs: []Finding{{After: 3 * time.Second}, {Success: true}}}}
	if diff := cmp.Diff(probes, s.Probes); diff != "" {
		t.Errorf("probes (-want +got):\n%s", diff)
	}
	steps := []Step{{At: 5 * time.Second, Verb: "delete", Args: []string{"3s"}}}
	if diff := cmp.Diff(steps, s.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if s.About != "A story." || s.Until != 10*time.Second || s.Pod.Spec.Containers[0].Image != Image {
		t.Errorf("story is %+v", s)
	}
	if again := string(s.Format("what happened\n")); again != example+"-- story --\nwhat happened\n" {
		t.Errorf("formatted as\n%s", again)
	}
}

func TestParseErrors(t *testing.T) {
	for _, line := range []string{"life app", "life app flies", "life app exits one after 2s", "probe app startup maybe", "at noon delete", "until", "hello"} {
		bad := strings.Replace(example, "until 10s", line, 1)
		if _, err := Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), "script: ") {
			t.Errorf("%q: error is %v", line, err)
		}
	}
	if _, err := Parse([]byte("nothing")); err == nil {
		t.Error("a story without a pod has no error")
	}
}
