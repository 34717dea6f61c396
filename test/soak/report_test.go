package soak

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReport(t *testing.T) {
	good := newReport(healthy())
	if !good.Passed() {
		t.Error("a healthy node did not pass")
	}
	if len(good.Quiet) != 13 || good.Samples != 26 {
		t.Errorf("%d quiet points and %d samples, want 13 and 26", len(good.Quiet), good.Samples)
	}
	o := healthy()
	o.Failed, o.Failures = 1, []string{"10:00:00 rollout of first"}
	bad := newReport(o)
	bad.Kit, bad.For, bad.Seconds = "kubelet ours", "2h0m0s", 7260
	if bad.Passed() || new(Report).Passed() {
		t.Error("a failure, or nothing, passed")
	}
	var table strings.Builder
	if err := bad.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kubelet ours, 2h0m0s of churn, 2h1m0s in all\n", "\nyes  no more sandboxes ", "\nno   all else worked", "\nfailed: 10:00:00 rollout of first\n",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	var text strings.Builder
	if err := bad.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	var again Report
	if err := json.Unmarshal([]byte(text.String()), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*bad, again); diff != "" {
		t.Errorf("report, read again (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(*bad, *Again(&again, o.Samples)); diff != "" {
		t.Errorf("report, judged again (-want +got):\n%s", diff)
	}
}

func TestLog(t *testing.T) {
	var lines, samples []string
	l := newLog(func(line string) { lines = append(lines, line) }, writerFunc(func(p []byte) (int, error) {
		samples = append(samples, string(p))
		return len(p), nil
	}))
	l.did(Rollouts)
	l.request("cluster IP", true, nil)
	for range maxTexts + 5 {
		l.request("node port", false, errors.New("EOF"))
	}
	if err := l.sample(Sample{Quiet: true, Counts: Counts{Rules: 3}}); err != nil {
		t.Fatal(err)
	}
	var o Observation
	l.fill(&o)
	want := map[string]Requests{"cluster IP": {Sent: 1, Slow: 1}, "node port": {Sent: maxTexts + 5, Failed: maxTexts + 5}}
	if diff := cmp.Diff(want, o.Requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if o.Failed != maxTexts+5 || len(o.Failures) != maxTexts || len(lines) != o.Failed || o.Work[Rollouts] != 1 {
		t.Errorf("%d failures, %d told of, %d lines, work %v", o.Failed, len(o.Failures), len(lines), o.Work)
	}
	if sent, failed := l.requestsSoFar(); sent != maxTexts+6 || failed != maxTexts+5 {
		t.Errorf("%d requests, %d failed", sent, failed)
	}
	if got := strings.Join(samples, ""); got != `{"at":0,"quiet":true,"counts":{"rules":3}}`+"\n" {
		t.Errorf("samples are %s", got)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
