package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const listText = `The following spec names can be used with 'ginkgo run --focus/skip':
    k8s.io/kubernetes@v1.37.2/test/e2e/common/network/networking.go:85: [sig-network] Networking Granular Checks: Pods should function for intra-pod communication: http [Conformance]
    k8s.io/kubernetes@v1.37.2/test/e2e_node/standalone_test.go:178: [sig-node] a static pod: should be running

`

func TestParseList(t *testing.T) {
	got, err := ParseList(strings.NewReader(listText))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"[sig-network] Networking Granular Checks: Pods should function for intra-pod communication: http [Conformance]",
		"[sig-node] a static pod: should be running",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("specs (-want +got):\n%s", diff)
	}
	if _, err := ParseList(strings.NewReader("flag provided but not defined: -list-tests\n")); err == nil {
		t.Error("a suite without specs is no error")
	}
}

func FuzzParseList(f *testing.F) {
	f.Add(listText)
	f.Add("    a.go:1: \n    b.go:22: x")
	f.Fuzz(func(t *testing.T, text string) {
		specs, err := ParseList(strings.NewReader(text))
		for _, spec := range specs {
			if strings.Contains(spec, "\n") {
				t.Errorf("the name %q has a line break", spec)
			}
		}
		if err == nil && len(specs) == 0 {
			t.Error("no specs and no error")
		}
	})
}
