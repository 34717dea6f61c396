package conformance

import (
	"fmt"
	"strings"
)

// Whose says whose binary runs.
type Whose string

const (
	// Ours is the example program of this repository.
	Ours Whose = "ours"
	// Stock is upstream's program.
	Stock Whose = "stock"
)

// ParseWhose reads "ours" or "stock".
func ParseWhose(text string) (Whose, error) {
	switch w := Whose(text); w {
	case Ours, Stock:
		return w, nil
	default:
		return "", fmt.Errorf("want %s or %s", Ours, Stock)
	}
}

// Kit is what the nodes of a run are made of.
type Kit struct {
	Kubelet Whose `json:"kubelet"`
	Proxy   Whose `json:"proxy"`
	// Backend is kube-proxy's mode: nftables or iptables.
	Backend string `json:"backend"`
	// Runtime is containerd, the distribution's, or containerd2, a current one, or the
	// absolute path of the socket of a runtime that somebody else runs, and which
	// is that of the only node.
	Runtime string `json:"runtime"`
}

// Foreign reports whether somebody else runs the runtime.
func (k Kit) Foreign() bool { return strings.Contains(k.Runtime, "/") }

// Check returns an error when the set cannot run with this kit.
func (k Kit) Check(set Set) error {
	if k.Foreign() && set.Suite == E2ENode {
		return fmt.Errorf("the set %s starts a runtime of its own, containerd or containerd2: "+
			"that suite moves the runtime and the kubelet into one control group", set.Name)
	}
	return nil
}

// runtimeName is the runtime in file names.
func (k Kit) runtimeName() string {
	if !k.Foreign() {
		return k.Runtime
	}
	path := strings.TrimPrefix(k.Runtime, "unix://")
	return "socket" + strings.ReplaceAll(path, "/", "-")
}

// Name returns what a run of the set with this kit is called in file names. The proxy
// is part of it only where the set exercises it.
func (k Kit) Name(set Set) string {
	if set.Part == Node {
		return fmt.Sprintf("kubelet-%s_%s", k.Kubelet, k.runtimeName())
	}
	return fmt.Sprintf("kubelet-%s_proxy-%s-%s_%s", k.Kubelet, k.Proxy, k.Backend, k.runtimeName())
}

// Stock reports whether a run of the set with this kit exercises upstream's binaries
// only.
func (k Kit) Stock(set Set) bool {
	return k.Kubelet == Stock && (set.Part == Node || k.Proxy == Stock)
}

// Recorded returns the kit whose records and ratchet stand for this one: itself. Nothing
// is recorded of somebody else's runtime; containerd stands in for it.
func (k Kit) Recorded() Kit {
	if k.Foreign() {
		k.Runtime = "containerd"
	}
	return k
}

// Yardstick returns the kit that this one is compared with: the recorded one with
// upstream's binaries.
func (k Kit) Yardstick() Kit {
	k = k.Recorded()
	k.Kubelet, k.Proxy = Stock, Stock
	return k
}

// Title describes the kit in a table's heading.
func (k Kit) Title(set Set) string {
	title := fmt.Sprintf("kubelet %s, %s", k.Kubelet, k.Runtime)
	if set.Part == Network {
		title = fmt.Sprintf("kubelet %s, kube-proxy %s (%s), %s", k.Kubelet, k.Proxy, k.Backend, k.Runtime)
	}
	return title
}
