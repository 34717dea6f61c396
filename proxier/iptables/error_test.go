package iptables

import (
	"testing"
)

func TestComplaintsAreLocated(t *testing.T) {
	tests := []struct {
		name   string
		status int
		stderr string
		line   int
		locked bool
	}{
		{"legacy, kernel", 1, "iptables-restore: line 12 failed\n", 12, false},
		{"legacy, syntax", 2, "iptables-restore v1.8.9 (legacy): Couldn't load target `KUBE-NONE':No such file or directory\n\n" +
			"Error occurred at line: 3\nTry `iptables-restore -h' or 'iptables-restore --help' for more information.\n", 3, false},
		{"nft, kernel", 4, "iptables-nft-restore v1.8.9 (nf_tables): \nline 2: CHAIN_DEL failed (Device or resource busy): chain KUBE-MARK-MASQ\n", 2, false},
		{"nft, not found", 1, "iptables-nft-restore: line 3 failed: Bad rule (does a matching rule exist in that chain?).\n", 3, false},
		{"nft, syntax", 2, "iptables-nft-restore v1.8.9 (nf_tables): unknown option \"--bad\"\nError occurred at line: 4\n", 4, false},
		{"the lock", 4, "Another app is currently holding the xtables lock. Stopped waiting after 5s.\n", 0, true},
		{"a port is no line", 2, "iptables-restore: host/network `host:port' not found\n", 0, false},
		{"nothing", 1, "", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := parseComplaint(Result{Status: tt.status, Stderr: []byte(tt.stderr)})
			if got.line != tt.line || got.locked != tt.locked {
				t.Errorf("line %d, locked %v; want %d, %v", got.line, got.locked, tt.line, tt.locked)
			}
			if got.message == "" {
				t.Error("it has no message")
			}
		})
	}
}

func FuzzComplaint(f *testing.F) {
	f.Add([]byte("iptables-restore: line 12 failed\n"))
	f.Add([]byte("Error occurred at line: 3\n"))
	f.Fuzz(func(t *testing.T, stderr []byte) {
		c := parseComplaint(Result{Status: resourceProblem, Stderr: stderr})
		if c.line < 0 || c.message == "" || len(c.message) > maxMessage+10 {
			t.Errorf("parseComplaint(%q) = %+v", stderr, c)
		}
	})
}
