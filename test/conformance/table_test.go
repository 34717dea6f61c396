package conformance

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableNamesEachDifference(t *testing.T) {
	summary := Summary{
		Set: "network", Title: "kubelet stock, kube-proxy ours (nftables), containerd", Versions: []string{"kubernetes v1.37.2"}, Wall: 61, Dir: "_out",
		Verdict: Judge([]string{"a", "b"},
			[]Result{{Spec: "a", State: Passed}, {Spec: "b", State: Failed, Message: "no route"}},
			Demand{Must: Ratchet{"b"}, Ratchet: Ratchet{"b"}, Stock: []Result{{Spec: "a", State: Passed}, {Spec: "b", State: Passed}}}),
		Notes: []string{"runs of kernel 6.1 do not count"},
	}
	var text bytes.Buffer
	if err := summary.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"passed        1        2\n", "failed        1        0\n", "and not now (1)\n  b\n      no route\n",
		"failed, stock passed: b\n", "Passed and not in the ratchet yet (make ratchet) (1)\n  a\n",
		"Limits and recorded results that do not count here (1)\n  runs of kernel 6.1 do not count\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}
