package proxier

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"unique"

	"github.com/google/go-cmp/cmp"
)

// parseCandidates reads endpoints such as "1:ready,local 2:serving,terminating
// 3:ready,zones=a+b,nodes=me", whose number is the last octet of the address.
func parseCandidates(t *testing.T, s string) []candidate {
	t.Helper()
	known := map[string]endpointFlags{
		"ready": ready | serving, "serving": serving, "terminating": terminating, "local": local,
		"nodes=me": nodeHints | nodeHinted, "nodes=other": nodeHints,
	}
	var out []candidate
	for field := range strings.FieldsSeq(s) {
		n, words, _ := strings.Cut(field, ":")
		c := candidate{addr: netip.MustParseAddrPort("10.244.0." + n + ":80")}
		for word := range strings.SplitSeq(words, ",") {
			f, ok := known[word]
			if zones, zoned := strings.CutPrefix(word, "zones="); zoned {
				f, ok = zoneHints, true
				c.zones = unique.Make(strings.ReplaceAll(zones, "+", ","))
			}
			if !ok && word != "" {
				t.Fatalf("unknown word %q", word)
			}
			c.flags |= f
		}
		out = append(out, c)
	}
	return out
}

func lastOctets(eps []Endpoint) string {
	var out []string
	for _, e := range eps {
		n := fmt.Sprint(e.Addr.Addr().As4()[3])
		if e.Local {
			n += "L"
		}
		out = append(out, n)
	}
	return strings.Join(out, " ")
}

func TestSelection(t *testing.T) {
	tests := []struct {
		name, endpoints, zone  string
		wantCluster, wantLocal string
		wantUsable             bool
	}{
		{name: "none"},
		{
			name: "ready ones", endpoints: "1:ready 2:ready,local 3:",
			wantCluster: "1 2L", wantLocal: "2L", wantUsable: true,
		},
		{name: "not serving", endpoints: "1: 2:terminating 3:serving"},
		{
			name: "terminating ones only when none is ready", endpoints: "1:ready 2:serving,terminating",
			wantCluster: "1", wantUsable: true,
		},
		{
			name: "fallback to terminating", endpoints: "1:serving,terminating 2:serving,terminating,local 3:terminating 4:",
			wantCluster: "1 2L", wantLocal: "2L", wantUsable: true,
		},
		{
			name: "local fallback beside ready ones elsewhere", endpoints: "1:ready 2:serving,terminating,local",
			wantCluster: "1", wantLocal: "2L", wantUsable: true,
		},
		{
			name: "ready and terminating counts as ready", endpoints: "1:ready,terminating,local 2:serving",
			wantCluster: "1L", wantLocal: "1L", wantUsable: true,
		},
		{
			name: "own zone", endpoints: "1:ready,zones=a 2:ready,zones=b 3:ready,zones=b+a", zone: "a",
			wantCluster: "1 3", wantUsable: true,
		},
		{
			name: "zone unknown", endpoints: "1:ready,zones=a 2:ready,zones=b",
			wantCluster: "1 2", wantUsable: true,
		},
		{
			name: "one without zone hint", endpoints: "1:ready,zones=a 2:ready", zone: "a",
			wantCluster: "1 2", wantUsable: true,
		},
		{
			name: "no endpoint for the zone", endpoints: "1:ready,zones=b 2:ready,zones=b", zone: "a",
			wantCluster: "1 2", wantUsable: true,
		},
		{
			name: "a hint of an unready endpoint does not count", endpoints: "1:serving,zones=a 2:ready,zones=b", zone: "a",
			wantCluster: "2", wantUsable: true,
		},
		{
			name: "own node before own zone", endpoints: "1:ready,zones=a,nodes=other 2:ready,zones=a,nodes=me", zone: "a",
			wantCluster: "2", wantUsable: true,
		},
		{
			name: "zone when no endpoint is for the node", endpoints: "1:ready,zones=a,nodes=other 2:ready,zones=b,nodes=other", zone: "a",
			wantCluster: "1", wantUsable: true,
		},
		{
			name: "one without node hint", endpoints: "1:ready,nodes=me 2:ready",
			wantCluster: "1 2", wantUsable: true,
		},
		{
			name: "topology does not narrow policy Local", endpoints: "1:ready,zones=b,local 2:ready,zones=a", zone: "a",
			wantCluster: "2", wantLocal: "1L", wantUsable: true,
		},
		{
			name: "topology does not narrow the fallback", endpoints: "1:serving,terminating,zones=b 2:serving,terminating,zones=a", zone: "a",
			wantCluster: "1 2", wantUsable: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := parseCandidates(t, tt.endpoints)
			if diff := cmp.Diff(tt.wantCluster, lastOctets(selectCluster(nil, c, tt.zone))); diff != "" {
				t.Errorf("cluster endpoints (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantLocal, lastOctets(selectLocal(nil, c))); diff != "" {
				t.Errorf("local endpoints (-want +got):\n%s", diff)
			}
			if got := usable(c); got != tt.wantUsable {
				t.Errorf("usable() = %v, want %v", got, tt.wantUsable)
			}
		})
	}
}

func TestDedupe(t *testing.T) {
	tests := []struct {
		name, endpoints string
		want            []endpointFlags
	}{
		{name: "a live one replaces a terminating one", endpoints: "1:serving,terminating 1:ready", want: []endpointFlags{ready | serving}},
		{name: "a terminating one does not replace a live one", endpoints: "1: 1:serving,terminating", want: []endpointFlags{0}},
		{name: "a ready one replaces an unready one", endpoints: "1: 1:ready", want: []endpointFlags{ready | serving}},
		{name: "of equals the first stays", endpoints: "1:ready,local 1:ready", want: []endpointFlags{ready | serving | local}},
		{name: "sorted by number, not by text", endpoints: "10:serving 9:ready", want: []endpointFlags{ready | serving, serving}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []endpointFlags
			for _, c := range dedupe(parseCandidates(t, tt.endpoints)) {
				got = append(got, c.flags)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("dedupe() leaves flags %b, want %b", got, tt.want)
			}
		})
	}
}
