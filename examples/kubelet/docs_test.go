package main

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/kubelet.md anew")

// TestDocumentation holds docs/kubelet.md to the flags and the fields that have an effect.
func TestDocumentation(t *testing.T) {
	const page = "../../docs/kubelet.md"
	want := documentation()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/kubelet.md is not current, write it with -update (-want +got):\n%s", diff)
	}
}
