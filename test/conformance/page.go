package conformance

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Chapter is a set and its recorded runs, for the page.
type Chapter struct {
	Set     Set
	Records []Record
}

const pageHead = `# Conformance

Kubernetes' own end-to-end suites, built from the module k8s.io/kubernetes, run against the stock kubelet and kube-proxy
and against ours, in clusters of network namespaces on one machine. The stock binaries are the yardstick: what they pass
here, ours must pass.

This page is written by ` + "`make conformance-page`" + ` from the results under test/conformance/results; don't edit it.
How to run: ` + "`make conformance SET=network BACKEND=nftables KUBELET=stock PROXY=ours RUNTIME=containerd2`" + `. A run that was
killed goes on where it was. ` + "`make ratchet`" + ` takes what newly passes into test/conformance/ratchet; a run that loses a spec
of the ratchet fails.
`

// WritePage writes docs/conformance.md.
func WritePage(w io.Writer, chapters []Chapter, skips []Skip) error {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, c := range chapters {
		c.write(&b)
	}
	b.WriteString("\n## Limits of hosts\nSpecs that some hosts cannot pass, whoever's binaries run. They are left out of our runs only where the recorded stock\nresults show that upstream fails them, too.\n\n| specs that match | why |\n|---|---|\n")
	for _, skip := range skips {
		fmt.Fprintf(&b, "| `%s` | %s |\n", escape(skip.Pattern), escape(skip.Reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (c Chapter) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n%s.\n", c.Set.Name, upperFirst(c.Set.About))
	if len(c.Records) == 0 {
		b.WriteString("\nNo run is recorded.\n")
		return
	}
	b.WriteString("\n| run | passed | failed | skipped | all | time | date | versions |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range c.Records {
		n := CountOf(names(r.Results), r.Results)
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %s | %s | %s |\n", kitTitle(r.Kit), n.Passed, n.Failed, n.Skipped, n.Total(),
			r.Wall.Round(time.Second), r.Date.Format(recordDate), escape(strings.Join(r.Versions, ", ")))
	}
	c.writeNotPassed(b, "Failed", Failed)
	c.writeNotPassed(b, "Skipped", Skipped)
}

// writeNotPassed lists the specs in the state, once for all runs that have the same ones.
func (c Chapter) writeNotPassed(b *strings.Builder, title string, state State) {
	var lists []string
	kits := map[string][]string{}
	for _, r := range c.Records {
		list := listOf(In(r.Results, state))
		if list == "" {
			continue
		}
		if kits[list] == nil {
			lists = append(lists, list)
		}
		kits[list] = append(kits[list], kitTitle(r.Kit))
	}
	for _, list := range lists {
		fmt.Fprintf(b, "\n%s with %s:\n%s", title, strings.Join(kits[list], "; "), list)
	}
}

func listOf(results []Result) string {
	var b strings.Builder
	for _, r := range results {
		fmt.Fprintf(&b, "- %s\n", escape(r.Spec))
		if r.Message != "" {
			fmt.Fprintf(&b, "  (%s)\n", escape(r.Message))
		}
	}
	return b.String()
}

// kitTitle makes words of a kit's name.
func kitTitle(kit string) string {
	return strings.NewReplacer("kubelet-", "kubelet ", "proxy-", "kube-proxy ", "_", ", ").Replace(kit)
}

func names(results []Result) []string {
	all := make([]string, 0, len(results))
	for _, r := range results {
		all = append(all, r.Spec)
	}
	return all
}

// escape keeps a text from ending a cell of a table, or from being markup.
func escape(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "*", `\*`).Replace(s)
}

func upperFirst(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
