package topology

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// machineOf returns a machine with nodes 0 to n-1 in a row: each is 10 from itself and 10
// more for each step.
func machineOf(tb testing.TB, n int) Machine {
	tb.Helper()
	var nodes []Node
	for i := range n {
		node := Node{ID: i}
		for j := range n {
			node.Distances = append(node.Distances, 10+10*max(i-j, j-i))
		}
		nodes = append(nodes, node)
	}
	m, err := NewMachine(nodes)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// hintsOf reads "0 preferred|1 preferred|0,1": "" is an empty list, "-" no preference.
func hintsOf(tb testing.TB, text string) []Hint {
	tb.Helper()
	if text == "-" {
		return nil
	}
	list := []Hint{}
	for part := range strings.SplitSeq(text, "|") {
		if part == "" {
			continue
		}
		name, preferred := strings.CutSuffix(part, " preferred")
		h := Hint{Preferred: preferred}
		if name != "any" {
			for id := range strings.SplitSeq(name, ",") {
				var n int
				if _, err := fmt.Sscan(id, &n); err != nil {
					tb.Fatal(err)
				}
				h.Nodes |= 1 << n
			}
		}
		list = append(list, h)
	}
	return list
}

// fakeProvider has hints for each request and records what it is asked for.
type fakeProvider struct {
	name  string
	hints map[string]Hints
	fails map[string]error
	calls *[]string
}

func (p *fakeProvider) Hints(r Request) Hints {
	if r.Container == nil {
		return p.hints[""]
	}
	return p.hints[r.Container.Name]
}

func (p *fakeProvider) Allocate(_ context.Context, r Request, hint Hint) error {
	*p.calls = append(*p.calls, fmt.Sprintf("%s gives %s from %s", p.name, r.Container.Name, hint))
	return p.fails[r.Container.Name]
}

func (p *fakeProvider) Release(uid types.UID) {
	*p.calls = append(*p.calls, fmt.Sprintf("%s releases %s", p.name, uid))
}

func podOf(inits, regular string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "u1"
	for name := range strings.FieldsSeq(inits) {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name})
	}
	for name := range strings.FieldsSeq(regular) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name})
	}
	return pod
}
