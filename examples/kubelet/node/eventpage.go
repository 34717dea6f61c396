package node

import (
	"fmt"
	"io"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
)

// writeEvents writes the newest events for people, the oldest of them first.
func (n *Node) writeEvents(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LAST\tTYPE\tREASON\tCOUNT\tOBJECT\tMESSAGE")
	for _, e := range n.events.Recent() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", age(e.LastTimestamp.Time), e.Type, e.Reason, e.Count, objectOf(e), oneLine(clip(e.Message)))
	}
	t.Flush() //nolint:errcheck // the client is gone
}

// objectOf names what an event is about.
func objectOf(e *corev1.Event) string {
	o := &e.InvolvedObject
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	if c := containerOf(e); c != "" {
		name += " " + c
	}
	return name
}
