package soak

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCountRuleset(t *testing.T) {
	const list = `{"nftables": [{"metainfo": {"version": "1.0.6", "json_schema_version": 1}},
{"table": {"family": "ip", "name": "t", "handle": 1}},
{"chain": {"family": "ip", "table": "t", "name": "a", "handle": 1}},
{"chain": {"family": "ip", "table": "t", "name": "b", "handle": 2}},
{"set": {"family": "ip", "name": "s", "table": "t", "type": "ipv4_addr", "handle": 3, "elem": ["10.0.0.1", "10.0.0.2"]}},
{"map": {"family": "ip", "name": "m", "table": "t", "type": "ipv4_addr", "handle": 4, "map": "verdict", "elem": [["10.0.0.1", {"goto": {"target": "a"}}]]}},
{"map": {"family": "ip", "name": "empty", "table": "t", "type": "ipv4_addr", "handle": 5, "map": "verdict"}},
{"rule": {"family": "ip", "table": "t", "chain": "a", "handle": 6, "expr": [{"accept": null}]}}]}`
	got, err := countRuleset([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Counts{Chains: 2, Rules: 1, Elements: 3}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if _, err := countRuleset([]byte("table ip t {}")); err == nil {
		t.Error("text is taken for JSON")
	}
}

func TestCountSaved(t *testing.T) {
	const saved = "# Generated\n*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SVC-A - [0:0]\n-A PREROUTING -j KUBE-SVC-A\nCOMMIT\n"
	if diff := cmp.Diff(Counts{Chains: 2, Rules: 1}, countSaved([]byte(saved))); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

func TestNumbersOfProcesses(t *testing.T) {
	tests := []struct {
		name    string
		read    func([]byte) (int64, error)
		text    string
		want    int64
		wantErr string
	}{
		{"goroutines", goroutinesIn, "goroutine profile: total 83\n10 @ 0x1 0x2\n", 83, ""},
		{"goroutines of no profile", goroutinesIn, "404 page not found\n", 0, "404 page"},
		{"goroutines without number", goroutinesIn, "goroutine profile: total many\n", 0, `"many"`},
		{"heap", heapIn, "heap profile: 1: 2 [3: 4] @ heap/1048576\n# Alloc = 5\n# HeapAlloc = 9437184\n# HeapSys = 1\n", 9437184, ""},
		{"heap of no profile", heapIn, "# HeapSys = 1\n", 0, "HeapAlloc"},
		{"memory", anonymousIn, "VmRSS:\t   44444 kB\nRssAnon:\t   11904 kB\nRssFile:\t   1 kB\n", 11904 << 10, ""},
		{"memory of a kernel thread", anonymousIn, "Name:\tkthreadd\n", 0, "RssAnon"},
		{"memory in another unit", anonymousIn, "RssAnon:\t   11904 MB\n", 0, "MB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.read([]byte(tt.text))
			switch {
			case tt.wantErr == "" && (err != nil || got != tt.want):
				t.Errorf("got %d, %v; want %d", got, err, tt.want)
			case tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)):
				t.Errorf("error %v, want one with %s", err, tt.wantErr)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"nftables": [{"set": {"elem": ["10.0.0.1"]}}]}`))
	f.Add([]byte("goroutine profile: total 83\n"))
	f.Add([]byte("# HeapAlloc = 5\nRssAnon: 7 kB\n"))
	f.Add([]byte(":A - [0:0]\n-A A -j B\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, read := range []func([]byte) (int64, error){goroutinesIn, heapIn} {
			if n, err := read(data); err == nil && n < 0 {
				t.Errorf("%d things", n)
			}
		}
		_, _ = anonymousIn(data) // What is left must not panic.
		_ = countSaved(data)
		_, _ = countRuleset(data)
	})
}
