package conformance

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const reportText = `[{
  "SuiteDescription": "Kubernetes e2e suite",
  "SpecialSuiteFailureReasons": ["Interrupted by User"],
  "SpecReports": [
    {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedBeforeSuite", "State": "passed", "RunTime": 1000000},
    {"ContainerHierarchyTexts": ["[sig-node] Pods", ""], "LeafNodeType": "It", "LeafNodeText": "should run", "State": "passed", "RunTime": 2349000000},
    {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "should end", "State": "timedout", "RunTime": 60000000000,
     "Failure": {"Message": "Timed out after 60.000s.\nExpected\n    <bool>: false"}},
    {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "not in focus", "State": "skipped"},
    {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "not here", "State": "skipped", "Failure": {"Message": "only on Windows"}},
    {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "stopped", "State": "interrupted", "Failure": {"Message": "Interrupted by User"}},
    {"ContainerHierarchyTexts": ["[sig-node] Pods"], "LeafNodeType": "It", "LeafNodeText": "later", "State": "pending"},
    {"ContainerHierarchyTexts": null, "LeafNodeType": "SynchronizedAfterSuite", "State": "failed", "Failure": {"Message": "no\nway"}}
  ]
}]`

func TestParseReport(t *testing.T) {
	got, err := ParseReport(strings.NewReader(reportText))
	if err != nil {
		t.Fatal(err)
	}
	want := Report{
		Results: []Result{
			{Spec: "[sig-node] Pods should run", State: Passed, Time: 2300 * time.Millisecond},
			{Spec: "[sig-node] Pods should end", State: Failed, Time: time.Minute, Message: "Timed out after 60.000s. Expected <bool>: false"},
			{Spec: "[sig-node] Pods not here", State: Skipped, Message: "only on Windows"},
		},
		Setup: []string{"Interrupted by User", "SynchronizedAfterSuite: no way"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestParseReportRefusesWhatIsNone(t *testing.T) {
	for _, text := range []string{"", "{}", "[", `[{"SpecReports": 1}]`} {
		if _, err := ParseReport(strings.NewReader(text)); err == nil {
			t.Errorf("%q is taken for a report", text)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	f.Add(reportText)
	f.Add(`[{"SpecReports":[{"LeafNodeType":"It","LeafNodeText":"é","State":"failed","Failure":{"Message":"` + strings.Repeat("é", 200) + `"}}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		report, err := ParseReport(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, r := range report.Results {
			if _, err := parseState(string(r.State)); err != nil {
				t.Errorf("%+v: %v", r, err)
			}
			if !utf8.ValidString(r.Message) || strings.Contains(r.Message, "\n") || len(r.Message) > messageLimit+len(" …") {
				t.Errorf("message %q is not a short line", r.Message)
			}
		}
	})
}
