package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePolicyAndScope(t *testing.T) {
	for _, p := range []Policy{None, BestEffort, Restricted, SingleNode} {
		if got, err := ParsePolicy(p.String()); got != p || err != nil {
			t.Errorf("%s is read as %s, %v", p, got, err)
		}
	}
	for _, s := range []Scope{PerContainer, PerPod} {
		if got, err := ParseScope(s.String()); got != s || err != nil {
			t.Errorf("%s is read as %s, %v", s, got, err)
		}
	}
	if p, err := ParsePolicy(""); p != None || err != nil {
		t.Errorf("no policy is read as %s, %v", p, err)
	}
	if s, err := ParseScope(""); s != PerContainer || err != nil {
		t.Errorf("no scope is read as %s, %v", s, err)
	}
	if _, err := ParsePolicy("Restricted"); err == nil {
		t.Error("a policy with a capital is accepted")
	}
	if _, err := ParseScope("node"); err == nil {
		t.Error("an unknown scope is accepted")
	}
	if got := Policy(9).String() + ", " + Scope(9).String(); got != "policy 9, scope 9" {
		t.Errorf("unknown values are %s", got)
	}
}

func TestParseOptions(t *testing.T) {
	tests := []struct {
		name    string
		options map[string]string
		want    Options
		err     string
	}{
		{name: "none"},
		{name: "both", options: map[string]string{OptionPreferClosest: "true", OptionMaxNodes: "16"}, want: Options{PreferClosest: true, MaxNodes: 16}},
		{name: "no switch", options: map[string]string{OptionPreferClosest: "maybe"}, err: `topology manager policy option prefer-closest-numa-nodes is "maybe": strconv.ParseBool: parsing "maybe": invalid syntax`},
		{name: "no number", options: map[string]string{OptionMaxNodes: "many"}, err: `topology manager policy option max-allowable-numa-nodes is "many": strconv.Atoi: parsing "many": invalid syntax`},
		{name: "too few", options: map[string]string{OptionMaxNodes: "7"}, err: `topology manager policy option max-allowable-numa-nodes is "7": want at least 8`},
		{name: "unknown", options: map[string]string{"prefer-far": "true"}, err: `topology manager policy option "prefer-far": want prefer-closest-numa-nodes or max-allowable-numa-nodes`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseOptions(tt.options)
			if text := errorText(err); text != tt.err {
				t.Fatalf("error %q, want %q", text, tt.err)
			}
			if err == nil && got != tt.want {
				t.Errorf("options %+v, want %+v", got, tt.want)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestNodes(t *testing.T) {
	n, err := NodesOf(5, 0, 63)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0, 5, 63}, n.IDs()); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
	if n.Len() != 3 || !n.Has(5) || n.Has(6) || n.Has(64) || n.Has(-1) || n.String() != "0,5,63" {
		t.Errorf("%d nodes: %s", n.Len(), n)
	}
	for _, id := range []int{-1, 64} {
		if _, err := NodesOf(id); err == nil {
			t.Errorf("node %d is accepted", id)
		}
	}
	var subsets []string
	for s := range Nodes(0b1101).Subsets() {
		subsets = append(subsets, s.String())
	}
	want := []string{"0", "2", "3", "0,2", "0,3", "2,3", "0,2,3"}
	if diff := cmp.Diff(want, subsets); diff != "" {
		t.Errorf("subsets (-want +got):\n%s", diff)
	}
	for range Nodes(0b111).Subsets() {
		break // must not go on
	}
	for range Nodes(0).Subsets() {
		t.Error("the empty set has a subset that is not empty")
	}
}

func TestNewMachine(t *testing.T) {
	m, err := NewMachine([]Node{{ID: 4, Distances: []int{21, 10}}, {ID: 0, Distances: []int{10, 21}}})
	if err != nil {
		t.Fatal(err)
	}
	if m.Nodes().String() != "0,4" || m.distance(m.Nodes()) != 15.5 {
		t.Errorf("nodes %s, distance %v", m.Nodes(), m.distance(m.Nodes()))
	}
	for _, nodes := range [][]Node{{{ID: 1}, {ID: 1}}, {{ID: 64}}, {{ID: -1}}} {
		if _, err := NewMachine(nodes); err == nil {
			t.Errorf("%v is accepted", nodes)
		}
	}
}
