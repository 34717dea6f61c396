package node

import (
	"net/http"
	"strings"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/runtime/server"
)

// GateFlagz and GateStatusz are the feature gates of the pages /flagz and /statusz, which are
// there unless the configuration switches them off.
const (
	GateFlagz   = "ComponentFlagz"
	GateStatusz = "ComponentStatusz"
)

// pages are those of the HTTPS API.
func (n *Node) pages(metrics http.Handler) server.Pages {
	k := n.cfg.Kubelet
	p := server.Pages{Stats: n.api.stats, Metrics: metrics, Configuration: func() any { return n.shown() }}
	if switchedOn(k, GateFlagz) {
		p.Flags = n.cfg.API.Flags
	}
	if switchedOn(k, GateStatusz) {
		version := strings.TrimPrefix(program.Version(), "v")
		release, _, _ := strings.Cut(version, "+")
		p.Status = &server.Status{Started: time.Now(), Version: version, Emulates: release[:strings.LastIndexByte(release, '.')]}
	}
	return p
}

// switchedOn reports whether a gate that is on by default is not switched off.
func switchedOn(k *kubeletconfig.KubeletConfiguration, gate string) bool {
	on, set := k.FeatureGates[gate]
	return on || !set
}
