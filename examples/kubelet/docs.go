package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/internal/cli"
)

const docsHead = `# kubelet

<!-- Made of the flags and of the fields that have an effect: go test ./examples/kubelet -run TestDocumentation -update -->

What the command line of the example kubelet takes, and which fields of its configuration have an effect. What it does is in
[its README](../examples/kubelet/README.md), how systemd runs it in [systemd](../examples/kubelet/systemd/README.md).

` + "```\n" + usage + "```\n" + `
A flag that has a field in the configuration wins over it. Lists and maps of flags take the place of those of the files, but for
` + "`--feature-gates`" + `, which are added to them. Flags of a stock kubelet that have no effect here are taken and reported in the log, as
fields without effect are.

| exit code | meaning |
|---|---|
| 0 | the end was asked for by SIGINT or SIGTERM; the configuration is valid; no problem was found |
| 1 | the kubelet could not start or go on; the configuration is not valid; the doctor found a problem |
| 2 | the command line is wrong; the doctor could not look |
| other | of ` + "`run --once`" + `: the exit code of the pod, which may be 1 and 2 as well |

Variables: ` + "`NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID`" + ` are systemd's; ` + "`PATH`" + ` is where mount, iptables and systemd-creds are looked for.

## Flags
`

// documentation is the page docs/kubelet.md.
func documentation() string {
	c := (&options{}).command()
	var b strings.Builder
	b.WriteString(docsHead + c.Markdown(3))
	for _, sub := range c.Commands {
		if table := sub.Markdown(4); table != "" {
			fmt.Fprintf(&b, "\n### kubelet %s\n%s", sub.Name, strings.Replace(table, "\n#### Flags\n", "", 1))
		}
	}
	with, without := fieldRows()
	b.WriteString("\n### Without effect\n\nTaken so that what starts kubelets starts this one, too:\n\n| flag | why |\n|---|---|\n")
	for _, i := range idleFlags() {
		fmt.Fprintf(&b, "| `--%s` | %s |\n", i.flag, i.why)
	}
	b.WriteString("\n## Fields of the configuration\n\nThose of a `KubeletConfiguration` (`kubelet.config.k8s.io/v1beta1`) that have an effect:\n\n" + fieldsHead)
	b.WriteString(strings.Join(with, ""))
	b.WriteString("\nThe others are read, and reported at the start if they are set:\n\n" + fieldsHead)
	b.WriteString(strings.Join(without, ""))
	return b.String()
}

const fieldsHead = "| field | default | flag |\n|---|---|---|\n"

// fieldRows are the rows of fields with and without effect.
func fieldRows() (with, without []string) {
	flags := map[string]string{}
	var t twins
	t.add(&cli.Command{})
	for _, v := range t.values {
		flags[v.field] = "`--" + v.flag + "`"
	}
	defaults, effective := defaultValues(), honoured()
	for _, field := range leaves(reflect.TypeFor[kubeletconfig.KubeletConfiguration](), "") {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", field, code(show(defaults[field])), flags[field])
		if isHonoured(field, effective) {
			with = append(with, row)
			continue
		}
		without = append(without, row)
	}
	return with, without
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + cli.Cell(s) + "`"
}

// isHonoured reports whether a field or one above it is in the list.
func isHonoured(field string, list []string) bool {
	return slices.ContainsFunc(list, func(h string) bool { return field == h || strings.HasPrefix(field, h+".") })
}

// leaves returns the names of all fields that are no structs.
func leaves(t reflect.Type, prefix string) []string {
	var names []string
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case name == "" && !f.Anonymous, f.Type == reflect.TypeFor[metav1.TypeMeta]():
		case f.Anonymous && name == "":
			names = append(names, leaves(ft, prefix)...)
		case ft.Kind() == reflect.Struct && hasNames(ft):
			names = append(names, leaves(ft, prefix+name+".")...)
		default:
			names = append(names, prefix+name)
		}
	}
	return names
}

// hasNames reports whether a struct is one in JSON, too: durations and quantities are not.
func hasNames(t reflect.Type) bool {
	return !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}
