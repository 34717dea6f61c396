package sysctl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConntrackSettings(t *testing.T) {
	tests := []struct {
		name string
		in   Conntrack
		cpus int
		want []string
	}{
		{name: "nothing asked for", cpus: 4},
		{name: "by CPUs", in: Conntrack{MaxPerCore: 32768, Min: 131072}, cpus: 8, want: []string{
			"proc/sys/net/netfilter/nf_conntrack_max=262144", "sys/module/nf_conntrack/parameters/hashsize=65536",
		}},
		{name: "the least", in: Conntrack{MaxPerCore: 32768, Min: 131072}, cpus: 2, want: []string{
			"proc/sys/net/netfilter/nf_conntrack_max=131072", "sys/module/nf_conntrack/parameters/hashsize=32768",
		}},
		{name: "many CPUs", in: Conntrack{MaxPerCore: 32768, Min: 131072}, cpus: 128, want: []string{
			"proc/sys/net/netfilter/nf_conntrack_max=1048576", "sys/module/nf_conntrack/parameters/hashsize=262144",
		}},
		{name: "a least above the largest", in: Conntrack{MaxPerCore: 1, Min: 2097152}, cpus: 1, want: []string{
			"proc/sys/net/netfilter/nf_conntrack_max=2097152", "sys/module/nf_conntrack/parameters/hashsize=524288",
		}},
		{name: "a least alone", in: Conntrack{Min: 131072}, cpus: 2},
		{name: "timeouts", in: Conntrack{
			TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour, UDP: 30 * time.Second, UDPStream: time.Minute, TCPBeLiberal: true,
		}, want: []string{
			"proc/sys/net/netfilter/nf_conntrack_tcp_timeout_established=86400",
			"proc/sys/net/netfilter/nf_conntrack_tcp_timeout_close_wait=3600",
			"proc/sys/net/netfilter/nf_conntrack_udp_timeout=30",
			"proc/sys/net/netfilter/nf_conntrack_udp_timeout_stream=60",
			"proc/sys/net/netfilter/nf_conntrack_tcp_be_liberal=1",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			for _, s := range tt.in.Settings(tt.cpus) {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHostApply(t *testing.T) {
	h := Host{Root: t.TempDir()}
	for name, value := range map[string]string{"a": "10\n", "b": "10", "c": "many"} {
		if err := os.WriteFile(filepath.Join(h.Root, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changes, err := h.Apply([]Setting{
		{Path: "a", Value: 20, AtLeast: true},
		{Path: "b", Value: 5, AtLeast: true},
		{Path: "b", Value: 7},
		{Path: "c", Value: 1},
		{Path: "missing", Value: 1},
	})
	want := []Change{{Setting{"a", 20, true}, 10}, {Setting{"b", 7, false}, 10}}
	if diff := cmp.Diff(want, changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	for _, part := range []string{`"many" is not a number`, "missing"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("error is %v, want %q in it", err, part)
		}
	}
	if again, _ := h.Apply([]Setting{{Path: "a", Value: 20, AtLeast: true}}); len(again) > 0 {
		t.Errorf("changed again: %v", again)
	}
}

func TestCountList(t *testing.T) {
	for in, want := range map[string]int{"0": 1, "0-3": 4, "0-1,4,6-7": 5, "": 0, "x": 0, "3-1": 0, "0-99999999": 0} {
		if got := countList(in); got != want {
			t.Errorf("countList(%q) = %d, want %d", in, got, want)
		}
	}
}

func FuzzCountList(f *testing.F) {
	f.Add("0-3,8")
	f.Fuzz(func(t *testing.T, s string) {
		if n := countList(s); n < 0 {
			t.Errorf("countList(%q) = %d", s, n)
		}
	})
}
