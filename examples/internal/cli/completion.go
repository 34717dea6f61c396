package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// Shells are those that Completion knows.
func Shells() []string { return []string{"bash", "zsh", "fish"} }

// Completion returns the script that completes the program's commands, flags and their
// values in a shell. The error names the shells that are known.
func (c *Command) Completion(shell string) (string, error) {
	switch shell {
	case "bash":
		return c.bash(), nil
	case "zsh":
		return c.zsh(), nil
	case "fish":
		return c.fish(), nil
	}
	return "", fmt.Errorf("no completion for shell %q, want one of %s", shell, strings.Join(Shells(), ", "))
}

// kind is what the value of a flag is.
type kind uint8

const (
	text  kind = iota
	onOff      // needs no value
	file
	directory
	word // one of a few
)

// kindOf tells the kind of a flag's value, by the name that its usage gives it.
func kindOf(f *pflag.Flag) kind {
	name, _ := pflag.UnquoteUsage(f)
	switch {
	case len(f.Annotations[valuesKey]) > 0:
		return word
	case f.NoOptDefVal != "":
		return onOff
	case name == "file" || name == "manifest":
		return file
	case name == "directory":
		return directory
	}
	return text
}

// oneLine is the usage of a flag for shells.
func oneLine(f *pflag.Flag) string {
	_, usage := pflag.UnquoteUsage(f)
	usage, _, _ = strings.Cut(usage, ";")
	return strings.Join(strings.Fields(usage), " ")
}

// visible are the flags of all groups that the help shows.
func (c *Command) visible() []*pflag.Flag {
	var flags []*pflag.Flag
	for _, g := range c.groups {
		flags = append(flags, g.Visible()...)
	}
	return flags
}

func (c *Command) commandNames() []string {
	names := make([]string, 0, len(c.Commands))
	for _, sub := range c.Commands {
		names = append(names, sub.Name)
	}
	return names
}

// bash has one case for each command, and one for each kind of value. Bash gives "=" as
// a word of its own.
func (c *Command) bash() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# bash completion for %[1]s: source <(%[1]s completion bash)
_%[2]s() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} flags words
	COMPREPLY=()
	if [[ $cur == "=" ]]; then
		cur=
	elif [[ $prev == "=" ]]; then
		prev=${COMP_WORDS[COMP_CWORD-2]}
	fi
	case $command in
`, c.Name, identifier(c.Name))
	for _, sub := range c.Commands {
		b.WriteString("\t" + sub.Name + ")\n")
		sub.bashFlags(&b)
		b.WriteString("\t\t;;\n")
	}
	b.WriteString("\t*)\n")
	c.bashFlags(&b)
	fmt.Fprintf(&b, `		if ((COMP_CWORD == 1)); then words="%s"; else words=; fi
		;;
	esac
	if [[ $cur == -* ]]; then
		COMPREPLY=($(compgen -W "$flags" -- "$cur"))
	elif [[ $words == FILES ]]; then
		compopt -o filenames 2>/dev/null
		COMPREPLY=($(compgen -f -- "$cur"))
	else
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
	fi
}
complete -F _%s %s
`, strings.Join(c.commandNames(), " "), identifier(c.Name), c.Name)
	return b.String()
}

// bashFlags writes what completes the values of the flags, and which flags and words there are.
func (c *Command) bashFlags(b *strings.Builder) {
	names := map[kind][]string{}
	var all []string
	b.WriteString("\t\tcase $prev in\n")
	for _, f := range c.visible() {
		all = append(all, "--"+f.Name)
		k := kindOf(f)
		names[k] = append(names[k], "--"+f.Name)
		if k == word {
			fmt.Fprintf(b, "\t\t--%s) COMPREPLY=($(compgen -W %q -- \"$cur\")); return ;;\n", f.Name, strings.Join(f.Annotations[valuesKey], " "))
		}
	}
	for _, v := range []struct {
		kind kind
		do   string
	}{
		{file, `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -f -- "$cur")); return`},
		{directory, `compopt -o filenames 2>/dev/null; COMPREPLY=($(compgen -d -- "$cur")); return`},
		{text, `return`},
	} {
		if len(names[v.kind]) > 0 {
			fmt.Fprintf(b, "\t\t%s) %s ;;\n", strings.Join(names[v.kind], "|"), v.do)
		}
	}
	words := "FILES"
	if len(c.Words) > 0 {
		words = strings.Join(c.Words, " ")
	}
	fmt.Fprintf(b, "\t\tesac\n\t\tflags=%q words=%q\n", strings.Join(all, " "), words)
}

func (c *Command) zsh() string {
	var b strings.Builder
	fmt.Fprintf(&b, "#compdef %[1]s\n# zsh completion for %[1]s: source <(%[1]s completion zsh)\n_%[2]s() {\n\tcase ${words[2]} in\n", c.Name, identifier(c.Name))
	for _, sub := range c.Commands {
		fmt.Fprintf(&b, "\t%s)\n\t\tshift words; ((CURRENT--))\n\t\t_arguments", sub.Name)
		sub.zshFlags(&b)
		rest := "*:file:_files"
		if len(sub.Words) > 0 {
			rest = "1:word:(" + strings.Join(sub.Words, " ") + ")"
		}
		fmt.Fprintf(&b, " \\\n\t\t\t%s\n\t\t;;\n", quote(rest))
	}
	b.WriteString("\t*)\n\t\t_arguments")
	c.zshFlags(&b)
	fmt.Fprintf(&b, " \\\n\t\t\t%s\n\t\t;;\n\tesac\n}\n", quote("1:command:("+strings.Join(c.commandNames(), " ")+")"))
	fmt.Fprintf(&b, "if [ \"$funcstack[1]\" = _%[1]s ]; then _%[1]s \"$@\"; else compdef _%[1]s %[2]s; fi\n", identifier(c.Name), c.Name)
	return b.String()
}

func (c *Command) zshFlags(b *strings.Builder) {
	for _, f := range c.visible() {
		spec := "--" + f.Name + "=[" + zshText(oneLine(f)) + "]:value:"
		switch kindOf(f) {
		case onOff:
			spec = "--" + f.Name + "[" + zshText(oneLine(f)) + "]"
		case word:
			spec += "(" + strings.Join(f.Annotations[valuesKey], " ") + ")"
		case file:
			spec += "_files"
		case directory:
			spec += "_files -/"
		case text:
			spec += " "
		}
		fmt.Fprintf(b, " \\\n\t\t\t%s", quote(spec))
	}
}

// zshText takes out what has a meaning in a description.
func zshText(s string) string {
	return strings.NewReplacer("[", "(", "]", ")", ":", " ", `\`, "").Replace(s)
}

func (c *Command) fish() string {
	var b strings.Builder
	names := strings.Join(c.commandNames(), " ")
	fmt.Fprintf(&b, "# fish completion for %[1]s: %[1]s completion fish | source\ncomplete -c %[1]s -f\n", c.Name)
	for _, sub := range c.Commands {
		fmt.Fprintf(&b, "complete -c %s -n __fish_use_subcommand -a %s -d %s\n", c.Name, sub.Name, quote(sub.About))
	}
	top := quote("not __fish_seen_subcommand_from " + names)
	if len(c.Commands) == 0 {
		top = "true"
	}
	c.fishFlags(&b, c.Name, top)
	for _, sub := range c.Commands {
		when := quote("__fish_seen_subcommand_from " + sub.Name)
		sub.fishFlags(&b, c.Name, when)
		if len(sub.Words) > 0 {
			fmt.Fprintf(&b, "complete -c %s -n %s -a %s\n", c.Name, when, quote(strings.Join(sub.Words, " ")))
		} else {
			fmt.Fprintf(&b, "complete -c %s -n %s -F\n", c.Name, when)
		}
	}
	return b.String()
}

func (c *Command) fishFlags(b *strings.Builder, program, when string) {
	for _, f := range c.visible() {
		fmt.Fprintf(b, "complete -c %s -n %s -l %s", program, when, f.Name)
		switch kindOf(f) {
		case onOff:
		case word:
			fmt.Fprintf(b, " -x -a %s", quote(strings.Join(f.Annotations[valuesKey], " ")))
		case file:
			b.WriteString(" -r -F")
		case directory:
			b.WriteString(" -x -a '(__fish_complete_directories)'")
		case text:
			b.WriteString(" -x")
		}
		fmt.Fprintf(b, " -d %s\n", quote(oneLine(f)))
	}
}

// quote quotes for all three shells; what they quote differently is taken out.
func quote(s string) string {
	return "'" + strings.NewReplacer("'", "’", `\`, "").Replace(s) + "'"
}

// identifier is a name as functions of shells have it.
func identifier(name string) string { return strings.ReplaceAll(name, "-", "_") }
