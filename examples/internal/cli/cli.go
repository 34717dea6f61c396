// Package cli has what the command lines of the example programs share: flags in groups,
// the help that shows them so, completion for shells, and a page of documentation.
//
// It is pflag and some text: the programs have one command, and one or two more that
// take a handful of flags.
package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Command is a program, or a command of one. The zero value but for Name is ready for
// use, by one goroutine.
type Command struct {
	// Name is what it is called by, like "kubelet" or "run".
	Name string
	// About says in one line what it does.
	About string
	// Usage is the text above the flags in the help.
	Usage string
	// Commands are those of the program, which stand before all flags.
	Commands []*Command
	// Words are what may follow, for completion; empty: files.
	Words []string

	groups []*Group
	all    *pflag.FlagSet
}

// Group is a set of flags that belong together.
type Group struct {
	Title string
	*pflag.FlagSet
}

// Group returns the flags of a title, which is new unless it has been asked for.
func (c *Command) Group(title string) *pflag.FlagSet {
	for _, g := range c.groups {
		if g.Title == title {
			return g.FlagSet
		}
	}
	f := c.newFlags()
	c.groups = append(c.groups, &Group{Title: title, FlagSet: f})
	return f
}

// newFlags returns flags that also go by their names with underscores, as those of the
// programs of Kubernetes (WordSepNormalizeFunc of k8s.io/component-base/cli/flag).
func (c *Command) newFlags() *pflag.FlagSet {
	f := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	f.SortFlags = false
	f.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	return f
}

// Groups returns the groups in the order in which they were asked for.
func (c *Command) Groups() []*Group { return slices.Clone(c.groups) }

// Parse reads the arguments of the command, and returns what is no flag. The error is
// pflag.ErrHelp where help was asked for, which has been written to usage.
func (c *Command) Parse(args []string, usage io.Writer) ([]string, error) {
	f := c.Flags()
	f.SetOutput(usage)
	f.Usage = func() { fmt.Fprint(usage, c.Help()) }
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	return f.Args(), nil
}

// Flags returns the flags of all groups.
func (c *Command) Flags() *pflag.FlagSet {
	if c.all != nil {
		return c.all
	}
	c.all = c.newFlags()
	for _, g := range c.groups {
		c.all.AddFlagSet(g.FlagSet)
	}
	return c.all
}

// Visible returns the flags of a group that the help shows.
func (g *Group) Visible() []*pflag.Flag {
	var flags []*pflag.Flag
	g.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags = append(flags, f)
		}
	})
	return flags
}

// Help is the text of --help: what the command does, and its flags by group.
func (c *Command) Help() string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(c.Usage, "\n") + "\n")
	for _, g := range c.groups {
		if len(g.Visible()) > 0 {
			fmt.Fprintf(&b, "\n%s:\n%s", g.Title, g.FlagUsages())
		}
	}
	return b.String()
}

// valuesKey is the annotation of a flag that has its values.
const valuesKey = "nodekit_values"

// Values says which values a flag takes, for completion; a flag that is not defined is
// passed over.
func Values(f *pflag.FlagSet, flag string, values ...string) {
	if known := f.Lookup(flag); known != nil {
		if known.Annotations == nil {
			known.Annotations = map[string][]string{}
		}
		known.Annotations[valuesKey] = values
	}
}
