package node

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/staticpods"
)

// manifest is one row of the page /manifests.
type manifest struct {
	staticpods.FileStatus
	// Phase and Message are those of the pod.
	Phase   corev1.PodPhase `json:"phase,omitempty"`
	Message string          `json:"message,omitempty"`
}

// manifests returns the status of every file and of the URL, with that of its pod.
func (n *Node) manifests() []manifest {
	rows := []manifest{}
	files := n.source.Statuses()
	if n.remote != nil {
		files = append(files, n.remote.Statuses()...)
	}
	for _, f := range files {
		row := manifest{FileStatus: f}
		if f.UID != "" {
			row.Phase = corev1.PodPending
			if s, ok := n.catalog.status(f.UID); ok {
				row.Phase, row.Message = s.Phase, describe(s)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// describe says in one line why a pod is not as it should be.
func describe(s corev1.PodStatus) string {
	if s.Reason != "" || s.Message != "" {
		return strings.Trim(s.Reason+": "+s.Message, ": ")
	}
	var parts []string
	for _, c := range s.ContainerStatuses {
		if w := c.State.Waiting; w != nil {
			parts = append(parts, strings.Trim(c.Name+": "+w.Reason+": "+w.Message, ": "))
		}
	}
	return strings.Join(parts, "; ")
}

// writeManifests writes the table for people.
func (n *Node) writeManifests(w io.Writer) {
	if n.agent.get() == nil {
		fmt.Fprintln(w, "Manifests are read once the container runtime answers.")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FILE\tSTATE\tLINE\tPOD\tPHASE\tDETAIL")
	for _, m := range n.manifests() {
		line := "-"
		if m.Line > 0 {
			line = strconv.Itoa(m.Line)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", filepath.Base(m.Path), m.State, line,
			cmp.Or(m.Pod, "-"), cmp.Or(string(m.Phase), "-"), oneLine(details(m)))
	}
	t.Flush() //nolint:errcheck // the client is gone
}

// details joins all there is to say of a file and its pod.
func details(m manifest) string {
	var parts []string
	if m.Reason != "" && len(m.Problems) == 0 {
		parts = append(parts, m.Reason)
	}
	for _, p := range m.Problems {
		parts = append(parts, p.String())
	}
	for _, p := range m.Warnings {
		parts = append(parts, "warning: "+p.String())
	}
	if m.Kept {
		parts = append(parts, "the pod of the last good version runs on")
	}
	if m.Message != "" {
		parts = append(parts, m.Message)
	}
	return cmp.Or(strings.Join(parts, "; "), "-")
}

// oneLine keeps a table in shape.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
