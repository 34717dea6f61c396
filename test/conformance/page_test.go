package conformance

import (
	"bytes"
	"strings"
	"testing"
)

func TestTableNamesEachDifference(t *testing.T) {
	summary := Summary{
		Set: "network", Title: "kubelet stock, kube-proxy ours (nftables), containerd", Versions: []string{"kubernetes v1.37.2"}, Wall: 61, Dir: "_out",
		Verdict: Judge([]string{"a", "b"},
			[]Result{{Spec: "a", State: Passed}, {Spec: "b", State: Failed, Message: "no route"}},
			Ratchet{"b"}, []Result{{Spec: "a", State: Passed}, {Spec: "b", State: Passed}}),
	}
	var text bytes.Buffer
	if err := summary.WriteTable(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"passed        1        2\n", "failed        1        0\n", "LOST: passed before, not now (1)\n  b\n      no route\n",
		"failed, stock passed: b\n", "Passed and not in the ratchet yet (make ratchet) (1)\n  a\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

func TestPageHoldsCountsAndFailures(t *testing.T) {
	set, err := Lookup("network")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := WritePage(&text, []Chapter{{Set: set, Records: []Record{exampleRecord()}}, {Set: Set{Name: "empty", About: "nothing"}}}, Skips()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| kubelet stock, kube-proxy stock-nftables, containerd | 1 | 1 | 0 | 2 | 15m2s | 2026-11-30 | kubernetes v1.37.2, containerd 1.6.20~ds1 |\n",
		"- [sig-network] b\n  (timed out)\n", "## empty\nNothing.\n\nNo run is recorded.\n", "dummy network device",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, &text)
		}
	}
}

func TestKitNames(t *testing.T) {
	node, network := Set{Part: Node}, Set{Part: Network}
	kit := Kit{Kubelet: Ours, Proxy: Stock, Backend: "iptables", Runtime: "containerd2"}
	for _, test := range []struct {
		name, got, want string
	}{
		{"node", kit.Name(node), "kubelet-ours_containerd2"},
		{"network", kit.Name(network), "kubelet-ours_proxy-stock-iptables_containerd2"},
		{"yardstick", kit.Yardstick().Name(network), "kubelet-stock_proxy-stock-iptables_containerd2"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, test.got, test.want)
		}
	}
	proxyOnly := Kit{Kubelet: Stock, Proxy: Ours}
	if !proxyOnly.Stock(node) || proxyOnly.Stock(network) {
		t.Error("our kube-proxy counts where only the kubelet is exercised, or not where it is")
	}
}
