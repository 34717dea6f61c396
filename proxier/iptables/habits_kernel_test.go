//go:build linux

package iptables

import (
	"os"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// TestKernelReadmeShowsRealOutput holds what the README shows of iptables to what
// iptables prints.
func TestKernelReadmeShowsRealOutput(t *testing.T) {
	t.Parallel()
	netnstest.NeedCommand(t, "iptables-nft")
	m := newMachine(t, NFT)
	if version := m.run(t, "iptables --version"); !strings.Contains(version, "v1.8.9") {
		t.Logf("%q prints in its own way: nothing is compared", version)
		return
	}
	b := m.backend(t, Config{})
	dns := with(servicePort("kube-dns", "10.96.0.10", "10.244.0.5:53", "10.244.0.6:53"), func(p *proxier.ServicePort) {
		p.Key.Namespace, p.Key.Port, p.Key.Protocol = "kube-system", "dns", proxier.UDP
		p.Frontends[0].Port = 53
	})
	mustReset(t, b, dns)
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(readme), "```console\n")
	shown, _, _ = strings.Cut(shown, "```")
	var want strings.Builder
	for _, command := range []string{
		"iptables -t nat -L KUBE-SERVICES -n | grep kube-dns",
		"iptables -t nat -L KUBE-SVC-TCOU7JCQXEZGVUNU -n",
		"iptables-save -t nat | grep 10.244.0.6:53",
	} {
		run, filter, _ := strings.Cut(command, " | grep ")
		want.WriteString("# " + command + "\n")
		for line := range strings.Lines(m.run(t, run)) {
			if strings.Contains(line, filter) {
				want.WriteString(strings.TrimRight(line, " \n") + "\n")
			}
		}
	}
	if shown != want.String() {
		t.Errorf("README.md shows\n%s\nbut this is printed:\n%s", shown, want.String())
	}
}
