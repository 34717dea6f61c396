package iptables

import (
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// The names are kube-proxy's, on every node: people search for them.
func TestChainNamesAreThoseOfKubeProxy(t *testing.T) {
	port := func(ns, name, port string, protocol proxier.Protocol) proxier.PortName {
		return proxier.PortName{Namespace: ns, Name: name, Port: port, Protocol: protocol}
	}
	tests := []struct {
		name string
		of   proxier.PortName
		kind chainKind
		want string
	}{
		{"DNS over TCP", port("kube-system", "kube-dns", "dns-tcp", proxier.TCP), clusterChain, "KUBE-SVC-ERIFXISQEP7F7OF4"},
		{"DNS over UDP", port("kube-system", "kube-dns", "dns", proxier.UDP), clusterChain, "KUBE-SVC-TCOU7JCQXEZGVUNU"},
		{"the API server", port("default", "kubernetes", "https", proxier.TCP), clusterChain, "KUBE-SVC-NPX46M4PTMTKRN6Y"},
		{"policy Local", port("default", "kubernetes", "https", proxier.TCP), localChain, "KUBE-SVL-NPX46M4PTMTKRN6Y"},
		{"external", port("default", "kubernetes", "https", proxier.TCP), externalChain, "KUBE-EXT-NPX46M4PTMTKRN6Y"},
		{"firewall", port("default", "kubernetes", "https", proxier.TCP), firewallChain, "KUBE-FW-NPX46M4PTMTKRN6Y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := append(appendName(nil, tt.of), protocolName(tt.of.Protocol)...)
			if got := (chainName{tt.kind, hashOf(text)}).String(); got != tt.want {
				t.Errorf("name = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestChancesAreWhatTheKernelKeeps(t *testing.T) {
	// As printed by iptables-save 1.8.9 after --probability with kube-proxy's ten
	// decimals.
	for n, want := range map[int]string{
		1: "1.00000000000", 2: "0.50000000000", 3: "0.33333333349", 7: "0.14285714272",
	} {
		if got := chanceText(n); got != want {
			t.Errorf("one in %d = %s, want %s", n, got, want)
		}
	}
}

func TestOnlyChainsOfKubeProxyAreOwned(t *testing.T) {
	tests := []struct {
		table tableName
		chain string
		want  bool
	}{
		{nat, "KUBE-SERVICES", true},
		{filter, "KUBE-SERVICES", true},
		{mangle, "KUBE-SERVICES", false},
		{nat, "KUBE-SEP-AAAAAAAAAAAAAAAA", true},
		{filter, "KUBE-SEP-AAAAAAAAAAAAAAAA", false},
		{mangle, "KUBE-PROXY-CANARY", true},
		{mangle, "KUBE-KUBELET-CANARY", false},
		{mangle, "KUBE-IPTABLES-HINT", false},
		{filter, "KUBE-FIREWALL", false},
		{nat, "KUBE-MARK-DROP", false},
		{nat, "KUBE-LOAD-BALANCER", false},
		{nat, "PREROUTING", false},
	}
	for _, tt := range tests {
		if got := owned(tt.table, tt.chain); got != tt.want {
			t.Errorf("owned(%s, %s) = %v, want %v", tt.table, tt.chain, got, tt.want)
		}
	}
}
