package run

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/conformance"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestSpecsOfNoSetAreListed asks the suite test/e2e, which the tests of clusters have built
// anyway; test/e2e_node takes long to build for this alone.
func TestSpecsOfNoSetAreListed(t *testing.T) {
	testnode.NeedTools(t)
	offered, err := listSpecs(t.Context(), conformance.Set{Suite: conformance.E2E})
	if err != nil {
		t.Fatal(err)
	}
	specs, err := conformance.Narrow(offered, `\[NodeConformance\]|^\[sig-(node|network|storage|apps)\] .*\[Conformance\]`, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range conformance.Sets() {
		in, err := set.Select(specs)
		if err != nil {
			t.Fatal(err)
		}
		if set.Suite == conformance.E2E {
			specs = slices.DeleteFunc(specs, func(spec string) bool { return slices.Contains(in, spec) })
		}
	}
	var listed []string
	for _, omission := range conformance.Omissions() {
		if omission.Suite == conformance.E2E {
			listed = append(listed, omission.Specs...)
		}
	}
	slices.Sort(listed)
	if diff := cmp.Diff(listed, specs); diff != "" {
		t.Errorf("specs that are in no set (-listed +offered):\n%s", diff)
	}
}
