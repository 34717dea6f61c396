package conformance

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// suiteReport is the part of Ginkgo's JSON report that is read here; see Report and
// SpecReport of github.com/onsi/ginkgo/v2/types.
type suiteReport struct {
	SpecialSuiteFailureReasons []string
	SpecReports                []specReport
}

type specReport struct {
	ContainerHierarchyTexts     []string
	ContainerHierarchyLocations []codeLocation
	LeafNodeType                string
	LeafNodeText                string
	State                       string
	RunTime                     time.Duration
	Failure                     struct{ Message string }
}

type codeLocation struct {
	FileName   string
	LineNumber int
}

// Report is what a run of a suite reported.
type Report struct {
	// Results are those of the specs that ran or skipped themselves.
	Results []Result
	// Setup holds failures outside of specs, before or after all of them, on one line
	// each; and why the run ended early, if it did.
	Setup []string
}

// ParseReport reads Ginkgo's JSON report. Specs that the run left out have no result:
// those that were not in focus, and those that an interrupt stopped.
func ParseReport(r io.Reader) (Report, error) {
	var suites []suiteReport
	if err := json.NewDecoder(r).Decode(&suites); err != nil {
		return Report{}, fmt.Errorf("read report: %w", err)
	}
	var report Report
	for _, suite := range suites {
		for _, reason := range suite.SpecialSuiteFailureReasons {
			report.Setup = append(report.Setup, oneLine(reason))
		}
		for _, spec := range suite.SpecReports {
			report.add(spec)
		}
	}
	return report, nil
}

func (r *Report) add(spec specReport) {
	state, ran := specState(spec)
	switch {
	case !ran:
	case spec.LeafNodeType == "It":
		r.Results = append(r.Results, Result{
			Spec:    spec.name(),
			State:   state,
			Time:    spec.RunTime.Round(100 * time.Millisecond),
			Message: oneLine(spec.Failure.Message),
		})
	case state == Failed:
		r.Setup = append(r.Setup, oneLine(fmt.Sprintf("%s: %s", spec.LeafNodeType, spec.Failure.Message)))
	}
}

// specState translates Ginkgo's state. A spec that was not in focus is skipped without a
// reason; one that an interrupt or an abort stopped has not shown anything.
func specState(spec specReport) (State, bool) {
	switch spec.State {
	case "passed":
		return Passed, true
	case "failed", "panicked", "timedout":
		return Failed, true
	case "skipped":
		return Skipped, spec.Failure.Message != ""
	default: // pending, interrupted, aborted.
		return "", false
	}
}

// name joins the texts as Ginkgo does for its focus: those that are not empty.
func (spec specReport) name() string {
	var texts []string
	for _, text := range append(spec.ContainerHierarchyTexts, spec.LeafNodeText) {
		if text != "" {
			texts = append(texts, text)
		}
	}
	return strings.TrimSpace(strings.Join(texts, " "))
}

// messageLimit is how much of a failure is kept. The whole is in the report.
const messageLimit = 300

// oneLine returns the beginning of a text without line breaks and bytes that are no
// text.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) <= messageLimit {
		return text
	}
	end := messageLimit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + " …"
}
