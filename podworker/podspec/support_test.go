package podspec_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

var update = flag.Bool("update", false, "write SUPPORT.md anew")

// TestSupportMatrix keeps SUPPORT.md in step with the table of fields.
func TestSupportMatrix(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Pod fields\n\nWhat becomes of each field a pod can set. A refused field refuses the pod; what is below it is not listed unless an\n" +
		"ability of the agent (`podspec.Ability`) makes it honoured. Fields that belong to another component are marked elsewhere.\n" +
		"What the example kubelet makes of each, and what shows it, is in [docs/support.md](../../docs/support.md).\n" +
		"This page is written by `go test ./podworker/podspec -update`.\n\n| Field | Support | Honoured with | Why not, or whose |\n|---|---|---|---|\n")
	for _, f := range podspec.Fields() {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Name, f.Support, f.Needs, f.Why)
	}
	if *update {
		if err := os.WriteFile("SUPPORT.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("SUPPORT.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(page), b.String()); diff != "" {
		t.Errorf("SUPPORT.md is out of date, run with -update (-page +table):\n%s", diff)
	}
}
