package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const groupsText = `[{"SpecReports": [
	{"LeafNodeType": "BeforeSuite"},
	{"LeafNodeType": "It", "LeafNodeText": "runs", "ContainerHierarchyTexts": ["a"], "ContainerHierarchyLocations": [{"FileName": "a.go", "LineNumber": 1}]},
	{"LeafNodeType": "It", "LeafNodeText": "ran", "ContainerHierarchyTexts": ["a"], "ContainerHierarchyLocations": [{"FileName": "a.go", "LineNumber": 1}]},
	{"LeafNodeType": "It", "LeafNodeText": "waits", "ContainerHierarchyTexts": ["a", "b"], "ContainerHierarchyLocations": [{"FileName": "a.go", "LineNumber": 1}, {"FileName": "a.go", "LineNumber": 9}]},
	{"LeafNodeType": "It", "LeafNodeText": "alone"}
]}]`

func groups(t *testing.T, text string) Groups {
	t.Helper()
	g, err := ParseGroups(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGroupsRunAsAWhole(t *testing.T) {
	g := groups(t, groupsText)
	all := []string{"a runs", "a b waits", "alone", "a ran"}
	if diff := cmp.Diff([]string{"a ran", "a runs", "alone"}, g.Whole([]string{"a ran", "alone"}, all)); diff != "" {
		t.Errorf("to run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a ran"}, g.Whole([]string{"a ran"}, []string{"a ran"})); diff != "" {
		t.Errorf("to run of what was asked for (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"unknown"}, (Groups{}).Whole([]string{"unknown"}, all)); diff != "" {
		t.Errorf("without groups (-want +got):\n%s", diff)
	}
	if _, err := ParseGroups(strings.NewReader("no JSON")); err == nil {
		t.Error("a report that is none is no error")
	}
}

func TestBatchesCutNoGroup(t *testing.T) {
	g := groups(t, groupsText)
	all := []string{"alone", "a runs", "a b waits", "a ran"}
	want := [][]string{{"alone"}, {"a runs", "a ran"}, {"a b waits"}}
	if diff := cmp.Diff(want, g.Batches(all, 2)); diff != "" {
		t.Errorf("batches of two (-want +got):\n%s", diff)
	}
	want = [][]string{{"alone"}, {"a runs", "a ran"}, {"a b waits"}}
	if diff := cmp.Diff(want, g.Batches(all, 1)); diff != "" {
		t.Errorf("a group that is larger than a batch (-want +got):\n%s", diff)
	}
}

// TestLargeGroupsAreNoSequence: a container with many specs is not run for one of them.
func TestLargeGroupsAreNoSequence(t *testing.T) {
	var specs []string
	var all []string
	for name := range strings.FieldsSeq("1 2 3 4 5 6 7 8 9") {
		specs = append(specs, `{"LeafNodeType": "It", "LeafNodeText": "`+name+`", "ContainerHierarchyLocations": [{"FileName": "a.go"}]}`)
		all = append(all, name)
	}
	g := groups(t, `[{"SpecReports": [`+strings.Join(specs, ",")+`]}]`)
	if diff := cmp.Diff([]string{"3"}, g.Whole([]string{"3"}, all)); diff != "" {
		t.Errorf("to run (-want +got):\n%s", diff)
	}
}
