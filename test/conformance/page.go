package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Page is what docs/conformance.md is written from.
type Page struct {
	// Chapters are the sets and their recorded runs.
	Chapters []Chapter
	// Known are the differences with a reason.
	Known []Known
	// Skips are the limits of hosts.
	Skips []Skip
	// Soaks are long runs under churn.
	Soaks []Soak
}

const pageHead = `# Conformance

Kubernetes' own end-to-end suites, built from the module k8s.io/kubernetes, run against the stock kubelet and kube-proxy
and against ours, in clusters of network namespaces on one machine. The stock binaries are the yardstick: what they pass
here, ours must pass. Each kit's last three whole runs are kept.

This page is written by ` + "`make conformance-page`" + ` from the results under test/conformance/results; don't edit it.
[testing.md](testing.md#conformance) says how to run a set. ` + "`make ratchet`" + ` takes what newly passes into
test/conformance/ratchet; a run that loses a spec of the ratchet fails. What a Pod and a Service may ask for, field by
field, is in [support.md](support.md).
`

// Comparisons returns those of all sets.
func (p Page) Comparisons() ([]Comparison, error) {
	var all []Comparison
	for _, c := range p.Chapters {
		comparisons, err := c.Compare(p.Known)
		if err != nil {
			return nil, err
		}
		all = append(all, comparisons...)
	}
	return all, nil
}

// Write writes the page.
func (p Page) Write(w io.Writer) error {
	comparisons, err := p.Comparisons()
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(pageHead)
	writeSummary(&b, comparisons)
	p.writeVersions(&b)
	writeSoaks(&b, p.Soaks)
	for _, c := range p.Chapters {
		c.write(&b, slices.DeleteFunc(slices.Clone(comparisons), func(of Comparison) bool { return of.Set != c.Set.Name }))
	}
	b.WriteString("\n## Limits of hosts\nSpecs that some hosts cannot pass, whoever's binaries run. They are left out of our runs only where all recorded runs of\nthe stock binaries show that upstream fails them, too.\n\n| specs that match | why |\n|---|---|\n")
	for _, skip := range p.Skips {
		fmt.Fprintf(&b, "| `%s` | %s |\n", strings.ReplaceAll(skip.Pattern, "|", `\|`), escape(skip.Reason))
	}
	_, err = io.WriteString(w, b.String())
	return err
}

// writeSummary writes a line per comparison, and what all runs took.
func writeSummary(b *strings.Builder, comparisons []Comparison) {
	b.WriteString("\n## Ours beside the stock binaries\nIn a row are the newest runs, of the same build or later ones each, that passed every spec which the stock binaries pass in\neach of theirs. Tolerated is only what never passes with ours for a reason that is written, and what comes and goes with both.\n\n" +
		"| set | with ours | stock passes | of them ours, newest run | runs in a row | differences | time ours / stock |\n|---|---|---|---|---|---|---|\n")
	var ours, stock time.Duration
	unexplained := 0
	for _, c := range comparisons {
		differences := fmt.Sprint(len(c.Losses))
		if n := c.unexplained(); n > 0 {
			differences += fmt.Sprintf(", **%d without a reason**", n)
			unexplained += n
		}
		steady := c.Stock.Steady()
		fmt.Fprintf(b, "| [%s](#%s) | %s | %d | %d | %d of %d | %s | %.2f |\n", c.Set, c.Set, kitTitle(c.Ours.Kit()), len(steady),
			CountOf(steady, c.Ours.Newest().Results).Passed, c.InARow, len(c.Ours), differences, c.Ratio())
		ours += c.Ours.Wall()
		stock += c.Stock.Wall()
	}
	if stock > 0 {
		fmt.Fprintf(b, "\nOne run of each of these takes %s with ours and %s with the stock binaries: **%.2f**. The machine does other things, too: each\nrun below has its load beside it.\n",
			ours.Round(time.Second), stock.Round(time.Second), ours.Seconds()/stock.Seconds())
	}
	if unexplained > 0 {
		fmt.Fprintf(b, "\n**%d differences have no reason.** They are named below.\n", unexplained)
	}
}

func (c Comparison) unexplained() int {
	n := 0
	for _, loss := range c.Losses {
		if loss.Unexplained() {
			n++
		}
	}
	return n
}

// writeVersions lists the programs of others, each with all versions that ran.
func (p Page) writeVersions(b *strings.Builder) {
	var programs []string
	versions := map[string][]string{}
	for _, c := range p.Chapters {
		for _, run := range slices.Concat(c.Kits...) {
			for _, text := range run.Versions {
				program, version, _ := strings.Cut(text, " ")
				if program == "nodekit" || slices.Contains(versions[program], version) {
					continue
				}
				if versions[program] == nil {
					programs = append(programs, program)
				}
				versions[program] = append(versions[program], version)
			}
		}
	}
	b.WriteString("\n## Versions\nOf ours, each run below names the commit.\n\n| program | versions |\n|---|---|\n")
	for _, program := range programs {
		slices.Sort(versions[program])
		fmt.Fprintf(b, "| %s | %s |\n", escape(program), escape(strings.Join(versions[program], ", ")))
	}
}

// kitTitle makes words of a kit's name.
func kitTitle(kit string) string {
	return strings.NewReplacer("kubelet-", "kubelet ", "proxy-", "kube-proxy ", "_", ", ").Replace(kit)
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
