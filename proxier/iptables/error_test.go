package iptables

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
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

// A caller tells what a process without privilege is told from what the host lacks: the one is
// so with every Backend, with the other another one may do.
func TestWantOfPrivilegeIsNoWantOfSupport(t *testing.T) {
	denied := []string{
		"Fatal: can't open lock file /run/xtables.lock: Permission denied\n",
		"iptables v1.8.9 (nf_tables): Could not fetch rule set generation id: Permission denied (you must be root)\n",
		"iptables v1.8.9 (legacy): can't initialize iptables table `nat': Operation not permitted\n",
	}
	lacking := []string{"iptables v1.8.9 (legacy): can't initialize iptables table `nat': Table does not exist (do you need to insmod?)\n"}
	for _, at := range []string{"-S", "-save", "-restore"} {
		for i, stderr := range append(denied, lacking...) {
			c := newCommands()
			c.before = func(cmd Command) (Result, bool) {
				line := strings.Join(append([]string{cmd.Name}, cmd.Args...), " ")
				return Result{Status: 4, Stderr: []byte(stderr)}, strings.Contains(line, at)
			}
			err := newFake(t, c, Config{Variant: NFT}).Reset(t.Context(), &proxier.State{})
			if want := i < len(denied); errors.Is(err, fs.ErrPermission) != want {
				t.Errorf("with %q of %s: %v, want fs.ErrPermission: %v", stderr, at, err, want)
			}
			if want := i >= len(denied) && at == "-S"; errors.Is(err, proxier.ErrNotSupported) != want {
				t.Errorf("with %q of %s: %v, want ErrNotSupported: %v", stderr, at, err, want)
			}
			if i < len(denied) && !strings.Contains(err.Error(), "CAP_NET_ADMIN") {
				t.Errorf("with %q of %s: %v does not say what is needed", stderr, at, err)
			}
		}
	}
	c := newCommands("iptables", "iptables-nft", "iptables-legacy")
	if err := newFake(t, c, Config{}).Reset(t.Context(), &proxier.State{}); !errors.Is(err, proxier.ErrNotSupported) {
		t.Errorf("without commands: %v, want ErrNotSupported", err)
	}
}

// One family without privilege keeps the other from nothing.
func TestAFamilyThatIsDeniedDoesNotStopTheOther(t *testing.T) {
	c := newCommands()
	c.before = func(cmd Command) (Result, bool) {
		return Result{Status: 4, Stderr: []byte("Permission denied (you must be root)\n")}, strings.HasPrefix(cmd.Name, "ip6tables")
	}
	var told notes
	mustReset(t, newFake(t, c, Config{Variant: NFT, Degraded: told.take}), servicePort("a", "10.96.0.1", "10.244.0.1:80"))
	if !errors.Is(told.last, fs.ErrPermission) || errors.Is(told.last, proxier.ErrNotSupported) {
		t.Errorf("told %v, want that IPv6 is denied", told.last)
	}
}
