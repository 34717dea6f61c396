package conformance

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Page is what docs/conformance.md is written from.
type Page struct {
	// Chapters are the sets and their recorded runs.
	Chapters []Chapter
	// Known are the differences with a reason.
	Known []Known
	// Skips are the limits of hosts, Omissions what is in no set.
	Skips     []Skip
	Omissions []Omission
	// Soaks are long runs under churn.
	Soaks []Soak
}

const pageHead = `# Conformance

Kubernetes' own end-to-end suites, built from the module k8s.io/kubernetes, run against the stock kubelet and kube-proxy
and against ours, in clusters of network namespaces on one machine. The stock binaries are the yardstick: what they pass
here, ours must pass.

Up to three whole runs of each kit are kept, the newest that were recorded. A run is recorded when somebody asks for it, maybe
after it has ended: one that nobody recorded, or whose record was removed later, leaves no gap. A commit with a + behind it is
of a working tree with changes, which the digits name.

The container images are not upstream's: there is no registry, so images of the same names are made here from Debian packages
and programs built from source, as far as the suites use them ([test/images](../test/images/doc.go)). What has to be pulled
from a registry fails with each kit.

This page is written by ` + "`make conformance-page`" + ` from the results under test/conformance/results; don't edit it.
[testing.md](testing.md#conformance) says how to run a set. ` + "`make ratchet`" + ` takes what newly passes into
test/conformance/ratchet; a run fails that loses a spec of the ratchet or one that the stock binaries pass in each recorded run.
What a Pod and a Service may ask for, field by field, is in [support.md](support.md).
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
	writeTimings(&b, comparisons)
	p.writeVersions(&b)
	writeSoaks(&b, p.Soaks)
	for _, c := range p.Chapters {
		c.write(&b, slices.DeleteFunc(slices.Clone(comparisons), func(of Comparison) bool { return of.Set != c.Set.Name }))
	}
	p.writeOmissions(&b)
	p.writeSkips(&b)
	_, err = io.WriteString(w, b.String())
	return err
}

// writeOmissions lists the conformance specs that are in no set.
func (p Page) writeOmissions(b *strings.Builder) {
	b.WriteString("\n## In no set\nOf what upstream labels NodeConformance, and of the Conformance of sig-node, sig-network, sig-storage and sig-apps, the sets leave\n" +
		"out what is listed here. Conformance of the other groups (API machinery, auth, CLI, scheduling, instrumentation, architecture) is\n" +
		"in no set: it looks at the control plane, which is upstream's with each kit, and at nodes on the way.\n")
	for _, omission := range p.Omissions {
		fmt.Fprintf(b, "\n%d of %s: %s.\n\n", len(omission.Specs), omission.Suite, escape(omission.Reason))
		for _, spec := range omission.Specs {
			fmt.Fprintf(b, "- %s\n", escape(spec))
		}
	}
}

// writeSkips lists the limits of hosts.
func (p Page) writeSkips(b *strings.Builder) {
	b.WriteString("\n## Limits of hosts\nSpecs that some hosts cannot pass, whoever's binaries run. They are left out of our runs only where each recorded run of the\n" +
		"stock binaries on a host like that (kernel and runtime of the same minor version, Kubernetes of the same version) skipped the\n" +
		"spec, or failed it with such a message.\n\n| specs that match | why | how the stock binaries fail |\n|---|---|---|\n")
	for _, skip := range p.Skips {
		fmt.Fprintf(b, "| %s | %s | %s |\n", pattern(skip.Pattern), escape(skip.Reason), pattern(skip.Fails))
	}
}

// pattern writes an expression into a cell of a table.
func pattern(s string) string { return "`" + strings.ReplaceAll(s, "|", `\|`) + "`" }

const summaryHead = `
## Ours beside the stock binaries
In a row are the newest recorded runs, one after the other, that passed every spec which the stock binaries pass in each of
their recorded runs. Tolerated is only what never passes with ours for a reason that is written, and what comes and goes with
both. A later run is never of an earlier commit, as far as git knows both. Runs are compared that are of hosts alike: kernel and
runtime of the same minor version, Kubernetes of the same version. [Time](#time) says what the last column compares.

| set | with ours | stock passes | of them ours, newest run | runs in a row | differences | time of specs, ours / stock |
|---|---|---|---|---|---|---|
`

// writeSummary writes a line per comparison, and names what there is nothing to say of.
func writeSummary(b *strings.Builder, comparisons []Comparison) {
	b.WriteString(summaryHead)
	unexplained := 0
	var without []string
	for _, c := range comparisons {
		steady := c.Stock.Steady()
		if len(steady) == 0 {
			without = append(without, c.withoutYardstick())
			continue
		}
		differences, ratio := fmt.Sprint(len(c.Losses)), "–"
		if n := c.unexplained(); n > 0 {
			differences += fmt.Sprintf(", **%d without a reason**", n)
			unexplained += n
		}
		if of := c.Timing().Ratio(); of > 0 {
			ratio = fmt.Sprintf("%.2f", of)
		}
		fmt.Fprintf(b, "| [%s](#%s) | %s | %d | %d | %d of %d | %s | %s |\n", c.Set, c.Set, kitTitle(c.Ours.Kit()), len(steady),
			CountOf(steady, c.Ours.Newest().Results).Passed, c.InARow, len(c.Ours), differences, ratio)
	}
	for _, line := range without {
		fmt.Fprintf(b, "\n%s\n", line)
	}
	if unexplained > 0 {
		fmt.Fprintf(b, "\n**%d differences have no reason.** They are named below.\n", unexplained)
	}
}

// withoutYardstick says why there is no line for the comparison.
func (c Comparison) withoutYardstick() string {
	title := fmt.Sprintf("[%s](#%s) with %s is not compared", c.Set, c.Set, kitTitle(c.Ours.Kit()))
	if len(c.Stock) == 0 {
		return fmt.Sprintf("%s: the recorded runs of the stock binaries are of another host (%s).", title, escape(strings.Join(c.Apart, "; ")))
	}
	return title + ": the stock binaries pass none of its specs here."
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
