package node

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/probes"
)

// probeRow is one row of the page /probes: a probe of a container that runs.
type probeRow struct {
	Pod         string         `json:"pod"`
	UID         types.UID      `json:"uid"`
	Container   string         `json:"container"`
	ContainerID string         `json:"containerID"`
	Probe       string         `json:"probe"`
	Value       probes.Outcome `json:"value"`
	// Since is when the value changed last, nil if it has not in this process.
	Since *time.Time `json:"since,omitempty"`
	// Over says that this container is not probed any more.
	Over bool `json:"over,omitempty"`
	// Last is the last attempt in this process.
	Last *probeAttempt `json:"last,omitempty"`
	// Successful, Failed and Unknown count the attempts of this process.
	Successful uint64 `json:"successful"`
	Failed     uint64 `json:"failed"`
	Unknown    uint64 `json:"unknown"`
}

// probeAttempt is what came of an attempt.
type probeAttempt struct {
	Outcome probes.Outcome `json:"outcome"`
	Message string         `json:"message,omitempty"`
	Error   string         `json:"error,omitempty"`
	At      time.Time      `json:"at"`
	Seconds float64        `json:"seconds"`
}

// probeRows returns all probes.
func (n *Node) probeRows() []probeRow {
	rows := []probeRow{}
	a := n.agent.get()
	if a == nil || a.probing == nil {
		return rows
	}
	for _, s := range a.probing.engine.Snapshot() {
		for i := range s.Probes {
			rows = append(rows, newProbeRow(s.Ref, &s.Probes[i]))
		}
	}
	return rows
}

func newProbeRow(ref probes.Ref, p *probes.ProbeStatus) probeRow {
	row := probeRow{
		Pod: ref.Namespace + "/" + ref.Pod, UID: ref.UID, Container: ref.Name, ContainerID: ref.ID,
		Probe: p.Kind.String(), Value: p.Value, Over: p.Held,
		Successful: p.Counts.Successful, Failed: p.Counts.Failed, Unknown: p.Counts.Unknown,
	}
	if !p.ChangedAt.IsZero() {
		row.Since = &p.ChangedAt
	}
	if !p.Last.At.IsZero() {
		row.Last = &probeAttempt{
			Outcome: p.Last.Outcome, Message: p.Last.Message, Error: p.Last.Err,
			At: p.Last.At, Seconds: p.Last.Duration.Seconds(),
		}
	}
	return row
}

// writeProbes writes the table for people.
func (n *Node) writeProbes(w io.Writer) {
	if a := n.agent.get(); a == nil || a.probing == nil {
		fmt.Fprintln(w, "No probes are run: this kubelet leaves them to others, or the container runtime has not answered yet.")
		return
	}
	rows := n.probeRows()
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POD\tCONTAINER\tPROBE\tVALUE\tSINCE\tLAST\tGOOD\tBAD\tUNKNOWN\tMESSAGE")
	for i := range rows {
		r := &rows[i]
		since, last, message := "-", "-", "-"
		if r.Since != nil {
			since = age(*r.Since)
		}
		if r.Last != nil {
			last = r.Last.Outcome.String() + " " + age(r.Last.At)
			message = cmp.Or(r.Last.Error, r.Last.Message, "-")
		}
		if r.Over {
			last += ", over"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", r.Pod, r.Container, r.Probe, r.Value,
			since, last, r.Successful, r.Failed, r.Unknown, oneLine(clip(message)))
	}
	t.Flush() //nolint:errcheck // the client is gone
}

// age says how long ago something was.
func age(t time.Time) string { return time.Since(t).Round(time.Second).String() + " ago" }

// maxCell is how many characters of a message the table shows; JSON has all.
const maxCell = 160

// clip cuts a cell to what a table can show.
func clip(s string) string {
	if r := []rune(s); len(r) > maxCell {
		return string(r[:maxCell]) + "…"
	}
	return s
}
