package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// times are what differs between two runs.
var times = regexp.MustCompile(`[0-9.]+ s\b`)

func TestReportForPeople(t *testing.T) {
	var out bytes.Buffer
	r := newReport(&out)
	r.begin("First")
	r.does("write %s", "a.yaml")
	r.expects("it is 100% there")
	r.table("pod\tanswers", "web-1\t20", "a-long-name\t4")
	r.fact("%d of %d", 20, 20)
	r.end(nil)
	r.begin("Second")
	r.end(errors.New("no luck\nat all"))
	r.finish(errors.New("Second: no luck"), "logs/here")
	want := `
== 1. First
   do      write a.yaml
   expect  it is 100% there
   saw     pod           answers
           web-1         20
           a-long-name   4
   ok      N s

== 2. Second
   FAILED  no luck
           at all

== Summary after N s
   yes     20 of 20
   NO      Second: no luck

The logs are in logs/here
`
	if diff := cmp.Diff(want, times.ReplaceAllString(out.String(), "N s")); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestReportForPrograms(t *testing.T) {
	r := newReport(new(bytes.Buffer))
	r.begin("First")
	r.saw("something")
	r.end(errors.New("no luck"))
	r.fact("a fact")
	var out bytes.Buffer
	if err := r.writeJSON(&out); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Steps []struct {
			Title, Error string
			Saw          []string
		}
		Facts []string
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Steps) != 1 || got.Steps[0].Error != "no luck" || got.Steps[0].Saw[0] != "something" || got.Facts[0] != "a fact" {
		t.Errorf("got %+v", got)
	}
}

func TestSnapshotChanges(t *testing.T) {
	before := snapshot{"a": {id: "1", pid: 10}, "b": {id: "2", pid: 20}, "c": {id: "3", pid: 30}}
	tests := []struct {
		name string
		now  snapshot
		want string
	}{
		{"nothing changed", snapshot{"a": {id: "1", pid: 10}, "b": {id: "2", pid: 20}, "c": {id: "3", pid: 30}}, ""},
		{
			"everything did",
			snapshot{"a": {id: "1", pid: 11}, "c": {id: "4", pid: 40}, "d": {id: "5", pid: 50}},
			"a was container 1 process 10 and is container 1 process 11\nb does not run any more\n" +
				"c was container 3 process 30 and is container 4 process 40\nd is new",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, before.changes(tt.now)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// The steps expect the mistake of broken.yaml in a certain line.
func TestBrokenManifestBreaksInLine12(t *testing.T) {
	data, err := manifests.ReadFile("manifests/broken.yaml")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) < 12 || !strings.Contains(lines[11], "containerPort: eighty") {
		t.Errorf("broken.yaml has no mistake in line 12:\n%s", data)
	}
}
