package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Markdown returns the flags as tables, one of each group, below headings of a level.
func (c *Command) Markdown(level int) string {
	var b strings.Builder
	for _, g := range c.groups {
		flags := g.Visible()
		if len(flags) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s %s\n\n| flag | default | meaning |\n|---|---|---|\n", strings.Repeat("#", level), g.Title)
		for _, f := range flags {
			name, usage := pflag.UnquoteUsage(f)
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", flagSyntax(f, name), cell(defaultOf(f)), Cell(usage))
		}
	}
	return b.String()
}

// flagSyntax is how a flag is written.
func flagSyntax(f *pflag.Flag, name string) string {
	s := "--" + f.Name
	if f.Shorthand != "" {
		s = "-" + f.Shorthand + ", " + s
	}
	if f.NoOptDefVal == "" && name != "" {
		s += " " + name
	}
	return s
}

// defaultOf returns the default of a flag, empty for none.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "[]", "false", "0", "0s":
		return ""
	}
	return f.DefValue
}

func cell(s string) string {
	if s == "" {
		return ""
	}
	return "`" + Cell(s) + "`"
}

// Cell is a text as a cell of a table.
func Cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
