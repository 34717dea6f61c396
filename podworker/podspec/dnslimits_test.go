package podspec

import (
	"fmt"
	"strings"
	"testing"
)

func TestCheckHost(t *testing.T) {
	names := func(n, length int) (out []string) {
		for i := range n {
			name := fmt.Sprintf("d%d.", i)
			out = append(out, name+strings.Repeat("x", length-len(name)))
		}
		return out
	}
	tests := []struct {
		name     string
		domain   string
		searches []string
		want     string
	}{
		{name: "nothing"},
		{name: "as many as can be", searches: names(32, 10)},
		{name: "too many", searches: names(33, 10), want: "Resolv.conf file '/r' contains search line consisting of more than 32 domains!"},
		{name: "too many beside the cluster's", domain: "cluster.local", searches: names(30, 10), want: "Resolv.conf file '/r' contains search line consisting of more than 29 domains!"},
		{name: "one too long", searches: names(1, 254), want: `Resolv.conf file "/r" contains a search path which length is more than allowed 253 chars!`},
		{name: "too long together", searches: names(9, 253), want: "Resolv.conf file '/r' contains search line which length is more than allowed 2048 chars!"},
		{name: "long together", searches: names(8, 253)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := DNS{Host: Resolver{Searches: tt.searches}, ClusterDomain: tt.domain}
			if got := d.CheckHost("/r"); got != tt.want {
				t.Errorf("CheckHost = %q, want %q", got, tt.want)
			}
		})
	}
}
