package node

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/admission"
)

// writeNode writes the resources of the node for people: what there is, what pods may
// have, what they hold, and what is kept from them.
func (n *Node) writeNode(w io.Writer) {
	r := n.resources.p.Load()
	requested := corev1.ResourceList{}
	if a := n.agent.get(); a != nil {
		requested = admission.Requested(a.admissions.active())
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "RESOURCE\tCAPACITY\tALLOCATABLE\tREQUESTED\tKEPT")
	for _, name := range sorted(r.Capacity) {
		has, offers, held := r.Capacity[name], r.Allocatable[name], requested[name]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", name, &has, &offers, &held, cmp.Or(r.kept(name), "-"))
	}
	if r.PIDs != nil {
		has := r.machine.Resources(0)["pid"]
		fmt.Fprintf(t, "pid\t%s\t%s\t-\t%s\n", &has, r.PIDs, cmp.Or(r.kept("pid"), "-"))
	}
	t.Flush() //nolint:errcheck // the client is gone
}

// kept joins what is subtracted from a resource.
func (r *resources) kept(name corev1.ResourceName) string {
	var terms []string
	for _, t := range r.Terms {
		if t.Resource == name {
			terms = append(terms, t.String())
		}
	}
	return strings.Join(terms, " + ")
}

func sorted(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }
