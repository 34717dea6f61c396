package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable"
)

// print writes the answer in a format.
func (a answer) print(format string, out io.Writer) error {
	if format == "json" {
		return a.json(out)
	}
	return a.table(out)
}

// json writes one object; errors is what a kubelet would refuse.
func (a answer) json(out io.Writer) error {
	object := struct {
		allocatable.Result
		Errors []string `json:"errors,omitempty"`
	}{Result: a.Result}
	if a.wrong != nil {
		object.Errors = strings.Split(a.wrong.Error(), "\n")
	}
	enc := json.NewEncoder(out)
	enc.SetIndent("", "  ")
	return enc.Encode(object)
}

// table writes a line for each amount of each resource.
func (a answer) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "RESOURCE\tAMOUNT\tWHAT")
	for _, name := range slices.Sorted(maps.Keys(a.capacity)) {
		had := a.capacity[name]
		fmt.Fprintf(w, "%s\t%s\tcapacity\n", name, &had)
		for _, t := range a.Terms {
			if t.Resource == name {
				fmt.Fprintf(w, "\t-%s\t%s\n", &t.Amount, cause(t))
			}
		}
		left, what := a.left(name)
		fmt.Fprintf(w, "\t%s\t%s\n", &left, what)
	}
	for _, t := range a.Unused {
		fmt.Fprintf(w, "%s\t-%s\t%s, but its capacity is not known\n", t.Resource, &t.Amount, cause(t))
	}
	return w.Flush()
}

func cause(t allocatable.Term) string {
	if t.Detail == "" {
		return t.Cause.String()
	}
	return t.Cause.String() + ": " + t.Detail
}

func (a answer) left(name corev1.ResourceName) (resource.Quantity, string) {
	if name == allocatable.PID && a.PIDs != nil {
		return *a.PIDs, "left to pods; not in the node's status"
	}
	return a.Allocatable[name], "allocatable"
}
