package conformance

import "testing"

func TestNameOfAKit(t *testing.T) {
	for _, test := range []struct {
		name, runtime string
		part          Part
		want          string
	}{
		{"kubelet", "containerd2", Node, "kubelet-stock_containerd2"},
		{"network", "containerd", Network, "kubelet-stock_proxy-ours-nftables_containerd"},
		{"somebody else's runtime", "/run/crio/crio.sock", Node, "kubelet-stock_socket-run-crio-crio.sock"},
		{"as a URL", "unix:///run/crio/crio.sock", Network, "kubelet-stock_proxy-ours-nftables_socket-run-crio-crio.sock"},
		{"which is called like ours", "/containerd", Node, "kubelet-stock_socket-containerd"},
	} {
		t.Run(test.name, func(t *testing.T) {
			kit := Kit{Kubelet: Stock, Proxy: Ours, Backend: "nftables", Runtime: test.runtime}
			if got := kit.Name(Set{Part: test.part}); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestKubeletsOwnSuiteTakesNoRuntimeOfSomebodyElse(t *testing.T) {
	for _, set := range Sets() {
		foreign := Kit{Runtime: "/run/crio/crio.sock"}.Check(set)
		if got, want := foreign != nil, set.Suite == E2ENode; got != want {
			t.Errorf("%s with somebody else's runtime: %v, want an error: %v", set.Name, foreign, want)
		}
		if err := (Kit{Runtime: "containerd2"}).Check(set); err != nil {
			t.Errorf("%s: %v", set.Name, err)
		}
	}
}

func TestYardstick(t *testing.T) {
	for runtime, want := range map[string]string{
		"containerd2": "kubelet-stock_proxy-stock-iptables_containerd2",
		"/run/x.sock": "kubelet-stock_proxy-stock-iptables_containerd",
	} {
		kit := Kit{Kubelet: Ours, Proxy: Ours, Backend: "iptables", Runtime: runtime}
		if got := kit.Yardstick().Name(Set{Part: Network}); got != want {
			t.Errorf("%s is compared with %s, want %s", runtime, got, want)
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
