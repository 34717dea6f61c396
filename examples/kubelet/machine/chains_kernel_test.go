package machine

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
)

// TestKernelChains makes the chains in a network namespace, twice, and again when they were
// flushed.
func TestKernelChains(t *testing.T) {
	netnstest.NeedCommand(t, "iptables")
	ns := netnstest.New(t)
	path, err := exec.LookPath("iptables")
	if err != nil {
		t.Fatal(err)
	}
	p := iptables{path: path, firewall: true}
	do := func(f func() error) {
		t.Helper()
		if err := ns.Do(f); err != nil {
			t.Fatal(err)
		}
	}
	saved := func() string {
		t.Helper()
		var all strings.Builder
		for _, table := range canaryTables() {
			out, err := ns.Run(path, "-w", "10", "-t", table, "-S")
			if err != nil {
				t.Fatal(err)
			}
			all.WriteString(table + "\n" + out)
		}
		return all.String()
	}
	ensure := func() error { return p.ensure(t.Context()) }
	canaries := func(want bool) func() error {
		return func() error {
			if p.complete(t.Context()) != want {
				return errors.New("the canaries are not as they should be")
			}
			return nil
		}
	}
	do(canaries(false))
	do(ensure)
	do(ensure)
	do(canaries(true))
	first := saved()
	for want, times := range map[string]int{
		"-N KUBE-IPTABLES-HINT": 1, "-N KUBE-KUBELET-CANARY": 3, "-A INPUT -j KUBE-FIREWALL": 1, "-A OUTPUT -j KUBE-FIREWALL": 1,
		"block incoming localnet connections": 1, "--ctstate RELATED,ESTABLISHED,DNAT -j DROP": 1,
	} {
		if got := strings.Count(first, want); got != times {
			t.Errorf("%q is there %d times, want %d:\n%s", want, got, times, first)
		}
	}
	for _, flush := range []string{"-F", "-X"} {
		if _, err := ns.Run(path, "-w", "10", "-t", "filter", flush); err != nil {
			t.Fatal(err)
		}
	}
	do(canaries(false))
	do(ensure)
	if again := saved(); again != first {
		t.Errorf("after a flush the tables are\n%s\nwant\n%s", again, first)
	}
}
