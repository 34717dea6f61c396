package topology

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestMerge(t *testing.T) {
	closest := Options{PreferClosest: true}
	tests := []struct {
		name    string
		nodes   int
		policy  Policy
		options Options
		hints   []string // one resource of one provider each
		want    string
		refused bool
	}{
		{name: "none asks nobody", nodes: 2, policy: None, hints: []string{""}, want: "any"},
		{name: "nobody cares", nodes: 2, policy: Restricted, hints: []string{"-", "-"}, want: "0,1 preferred"},
		{name: "one node suits both", nodes: 2, policy: SingleNode, hints: []string{"0 preferred|1 preferred|0,1", "1 preferred|0,1"}, want: "1 preferred"},
		{name: "the lower one of two", nodes: 2, policy: Restricted, hints: []string{"0 preferred|1 preferred", "0 preferred|1 preferred"}, want: "0 preferred"},
		{name: "one does not care", nodes: 2, policy: Restricted, hints: []string{"-", "1 preferred|0,1"}, want: "1 preferred"},
		{name: "one cannot be fulfilled", nodes: 2, policy: Restricted, hints: []string{"", "1 preferred"}, want: "1", refused: true},
		{name: "best effort takes it nevertheless", nodes: 2, policy: BestEffort, hints: []string{"", "1 preferred"}, want: "1"},
		{name: "different nodes are preferred", nodes: 2, policy: BestEffort, hints: []string{"0 preferred", "1 preferred"}, want: "0,1"},
		{name: "restricted refuses these", nodes: 2, policy: Restricted, hints: []string{"0 preferred", "1 preferred"}, want: "0,1", refused: true},
		{name: "two nodes where two are needed", nodes: 4, policy: Restricted, hints: []string{"0,1 preferred|2,3 preferred", "2,3 preferred|0,1,2,3"}, want: "2,3 preferred"},
		{name: "single refuses two", nodes: 4, policy: SingleNode, hints: []string{"0,1 preferred", "0,1 preferred"}, want: "any", refused: true},
		{name: "single on the only node", nodes: 1, policy: SingleNode, hints: []string{"0 preferred"}, want: "any preferred"},
		{name: "single does not take what is not preferred", nodes: 2, policy: SingleNode, hints: []string{"0", "0 preferred"}, want: "any", refused: true},
		{name: "as many nodes as the most demanding needs", nodes: 4, policy: BestEffort, hints: []string{"0|1|0,1", "0,1 preferred|2,3 preferred"}, want: "0,1"},
		{name: "rather fewer than more", nodes: 4, policy: BestEffort, hints: []string{"0|0,1,2", "0,2,3|1,2,3"}, want: "0,2"},
		{name: "close nodes", nodes: 4, policy: BestEffort, options: closest, hints: []string{"0,3 preferred|2,3 preferred"}, want: "2,3 preferred"},
		{name: "far ones have lower numbers", nodes: 4, policy: BestEffort, hints: []string{"0,3 preferred|2,3 preferred"}, want: "0,3 preferred"},
		{name: "nodes the machine does not have", nodes: 2, policy: Restricted, hints: []string{"5 preferred"}, want: "0,1", refused: true},
		{name: "a machine without nodes", policy: SingleNode, hints: []string{"0 preferred", ""}, want: "any preferred"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var hints []Hints
			for i, text := range tt.hints {
				hints = append(hints, Hints{fmt.Sprint("resource", i): hintsOf(t, text)})
			}
			best, ok := Merge(machineOf(t, tt.nodes), Rules{Policy: tt.policy, Options: tt.options}, hints)
			if diff := cmp.Diff(tt.want, best.String()); diff != "" {
				t.Errorf("best (-want +got):\n%s", diff)
			}
			if ok == tt.refused {
				t.Errorf("allowed %v", ok)
			}
		})
	}
}

func TestMergeOfProvidersWithoutHints(t *testing.T) {
	best, ok := Merge(machineOf(t, 2), Rules{Policy: SingleNode}, []Hints{nil, {"cpu": hintsOf(t, "1 preferred")}, {}})
	if best.String() != "1 preferred" || !ok {
		t.Errorf("best %s, allowed %v", best, ok)
	}
}

// TestMergeIsTheBestOfAllWays compares with what looking at each way by itself finds.
func TestMergeIsTheBestOfAllWays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "nodes")
		m := drawMachine(t, n)
		r := Rules{
			Policy:  Policy(rapid.IntRange(int(BestEffort), int(SingleNode)).Draw(t, "policy")), //nolint:gosec // small
			Options: Options{PreferClosest: rapid.Bool().Draw(t, "closest")},
		}
		hint := rapid.Custom(func(t *rapid.T) Hint {
			return Hint{Nodes: Nodes(rapid.IntRange(0, 1<<n-1).Draw(t, "nodes")), Preferred: rapid.Bool().Draw(t, "preferred")} //nolint:gosec // small
		})
		var hints []Hints
		for range rapid.IntRange(0, 3).Draw(t, "providers") {
			h := Hints{}
			for i := range rapid.IntRange(0, 2).Draw(t, "resources") {
				h[fmt.Sprint(i)] = rapid.OneOf(rapid.Just([]Hint(nil)), rapid.SliceOfN(hint, 0, 4)).Draw(t, "hints")
			}
			hints = append(hints, h)
		}
		best, ok := Merge(m, r, hints)
		wantBest, wantOK := mergeOneByOne(m, r, hints)
		if best != wantBest || ok != wantOK {
			t.Fatalf("best %s, allowed %v; one by one %s, %v", best, ok, wantBest, wantOK)
		}
	})
}

func drawMachine(t *rapid.T, n int) Machine {
	var nodes []Node
	for i := range n {
		nodes = append(nodes, Node{ID: i, Distances: rapid.SliceOfN(rapid.IntRange(10, 40), n, n).Draw(t, "distances")})
	}
	m, err := NewMachine(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mergeOneByOne goes through all ways, as the kubelet does, and keeps the best so far.
func mergeOneByOne(m Machine, r Rules, hints []Hints) (Hint, bool) {
	lists := flatten(hints)
	if r.Policy == SingleNode {
		lists = singles(lists)
	}
	better := func(a, b Nodes) bool {
		if r.Policy != SingleNode && r.Options.PreferClosest {
			return m.closer(a, b)
		}
		return a.Narrower(b)
	}
	var best *Hint
	forEachWay(lists, nil, func(way []Hint) {
		h := Hint{Nodes: m.nodes, Preferred: true}
		var first Nodes
		for _, w := range way {
			h.Preferred = h.Preferred && w.Preferred
			if w.Nodes == 0 {
				continue
			}
			if first == 0 {
				first = w.Nodes
			}
			h.Preferred = h.Preferred && w.Nodes == first
			h.Nodes &= w.Nodes
		}
		if h.Nodes != 0 && (best == nil || beats(h, *best, demand(lists), better)) {
			best = &h
		}
	})
	if best == nil {
		best = &Hint{Nodes: m.nodes}
	}
	if r.Policy == SingleNode && best.Nodes == m.nodes {
		best.Nodes = 0
	}
	return *best, best.Preferred || r.Policy == BestEffort
}

func beats(h, best Hint, demand int, better func(a, b Nodes) bool) bool {
	if h.Preferred != best.Preferred {
		return h.Preferred
	}
	if h.Nodes == best.Nodes {
		return false
	}
	have, now := best.Nodes.Len(), h.Nodes.Len()
	switch {
	case h.Preferred, have > demand:
		return better(h.Nodes, best.Nodes)
	case have == demand:
		return now == demand && better(h.Nodes, best.Nodes)
	case now > demand:
		return false
	case now == demand || now != have:
		return now > have
	}
	return better(h.Nodes, best.Nodes)
}

func forEachWay(lists [][]Hint, way []Hint, f func([]Hint)) {
	if len(lists) == 0 {
		f(way)
		return
	}
	for _, h := range lists[0] {
		forEachWay(lists[1:], append(slices.Clip(way), h), f)
	}
}

// BenchmarkMerge merges the hints of CPUs, memory, huge pages and two kinds of devices on a
// machine with eight nodes, of which no nodes suit all.
func BenchmarkMerge(b *testing.B) {
	m := machineOf(b, 8)
	var list []Hint
	for n := range m.Nodes().Subsets() {
		list = append(list, Hint{Nodes: n, Preferred: n.Len() == 2})
	}
	hints := []Hints{{"cpu": list}, {"memory": list, "hugepages-1Gi": list}, {"vendor/a": list, "vendor/b": {{Nodes: 1 << 7, Preferred: true}}}}
	b.ReportAllocs()
	for b.Loop() {
		if best, ok := Merge(m, Rules{Policy: BestEffort}, hints); !ok || best.Nodes != 1<<7 {
			b.Fatal(best, ok)
		}
	}
}
