package conformance

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSetsAreNamedOnceAndCompile(t *testing.T) {
	seen := map[string]bool{}
	for _, set := range Sets() {
		if seen[set.Name] {
			t.Errorf("two sets are called %s", set.Name)
		}
		seen[set.Name] = true
		if _, err := set.Select(nil); err != nil {
			t.Errorf("set %s: %v", set.Name, err)
		}
		if got, err := Lookup(set.Name); err != nil || got.Name != set.Name {
			t.Errorf("Lookup(%q) = %q, %v", set.Name, got.Name, err)
		}
	}
	if _, err := Lookup("nowhere"); err == nil || !strings.Contains(err.Error(), "node-conformance") {
		t.Errorf("got %v, want an error that names the sets", err)
	}
}

func TestSelect(t *testing.T) {
	specs := []string{
		"[sig-network] Services should serve a basic endpoint from pods [Conformance]",
		"[sig-network] Services should work after restarting kube-proxy [Disruptive]",
		"[sig-network] ServiceCIDR should serve",
		"[sig-network] Networking Granular Checks: Services should function for pod-Service: sctp [Feature:SCTPConnectivity]",
		"[sig-node] Pods should get a host IP [NodeConformance] [Conformance]",
		"[sig-node] Pods should cap back-off [Slow] [NodeConformance]",
		"[sig-node] Pods should get a host IP [NodeConformance] [Conformance]",
		"[sig-apps] Job should delete a job [Conformance]",
		"[sig-api-machinery] Watchers should observe [Conformance]",
		"[sig-apps] Daemon set [Serial] should rollback [Conformance]",
		"[sig-network] EndpointSliceMirroring should mirror [Conformance]",
		"[sig-node] Container Runtime should pull [NodeConformance] [Serial]",
	}
	for _, test := range []struct {
		set  string
		want []string
	}{
		{"network", []string{specs[0]}},
		{"node-conformance", []string{specs[4]}}, // Once.
		{"node-conformance-slow", []string{specs[11], specs[5]}},
		{"conformance", []string{specs[7], specs[10]}},
	} {
		t.Run(test.set, func(t *testing.T) {
			set, err := Lookup(test.set)
			if err != nil {
				t.Fatal(err)
			}
			got, err := set.Select(specs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("specs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNarrow(t *testing.T) {
	specs := []string{"a b", "a c", "d"}
	for _, test := range []struct {
		name, focus, skip string
		want              []string
	}{
		{"nothing said", "", "", specs},
		{"focus", "a", "", []string{"a b", "a c"}},
		{"focus and skip", "a", "c$", []string{"a b"}},
		{"nothing left", "x", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Narrow(specs, test.focus, test.skip)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("specs (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Narrow(specs, "(", ""); err == nil {
		t.Error("a bad expression is no error")
	}
}

// Ginkgo matches the focus against the suite's description and the spec's name.
func TestFocusForMatchesItsSpecsOnly(t *testing.T) {
	specs := []string{"[sig-node] Pods should (not) run+ [Slow]", "[sig-node] Pods"}
	focus := regexp.MustCompile(FocusFor(specs))
	for text, want := range map[string]bool{
		"Kubernetes e2e suite [sig-node] Pods should (not) run+ [Slow]":    true,
		"Kubernetes e2e suite [sig-node] Pods":                             true,
		"Kubernetes e2e suite [sig-node] Pods should (not) run+ [Slow] it": false,
		"Kubernetes e2e suite [sig-node] Pods should":                      false,
		"Kubernetes e2e suite x[sig-node] Pods":                            false,
	} {
		if got := focus.MatchString(text); got != want {
			t.Errorf("%q: match is %v, want %v", text, got, want)
		}
	}
	if regexp.MustCompile(FocusFor(nil)).MatchString("Kubernetes e2e suite [sig-node] Pods") {
		t.Error("no specs match a spec")
	}
}

func TestRepresentativeSpecsAreForty(t *testing.T) {
	specs := representativeSpecs()
	slices.Sort(specs)
	if got := len(slices.Compact(specs)); got != 40 {
		t.Errorf("%d specs, want 40", got)
	}
}
