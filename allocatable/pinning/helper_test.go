package pinning

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// The shapes of machines that tests are about.
var (
	smallHT    = stockShape{Name: "1 socket, 2 cores, HT", Sockets: 1, Nodes: 1, Cores: 2, Threads: 2, Caches: 1}
	twoSockets = stockShape{Name: "2 sockets, 2 NUMA, HT", Sockets: 2, Nodes: 2, Cores: 8, Threads: 2, Caches: 2}
	fourNodes  = stockShape{Name: "2 sockets, 4 NUMA", Sockets: 2, Nodes: 4, Cores: 16, Threads: 1, Caches: 4}
	manyCaches = stockShape{Name: "1 socket, 4 caches, HT", Sockets: 1, Nodes: 1, Cores: 16, Threads: 2, Caches: 4}
)

// podOf returns a Guaranteed pod of containers like "init:2 side:1 main:4 main:500m", named
// by their kind and number.
func podOf(uid types.UID, containers string) *corev1.Pod {
	o := stockOp{Pod: uid}
	for field := range strings.FieldsSeq(containers) {
		kind, cpu, _ := strings.Cut(field, ":")
		o.Containers = append(o.Containers, stockContainer{Kind: kind, CPU: cpu})
	}
	pod := o.pod()
	pod.Namespace = "default"
	return pod
}

func newCPUs(tb testing.TB, cfg CPUConfig, shape stockShape) *CPUs {
	tb.Helper()
	cfg.Policy, cfg.Layout, cfg.Class = Static, shape.layout(tb), guaranteed
	c, err := NewCPUs(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// admit gives all containers of a pod their CPUs, without regard to nodes.
func admit(tb testing.TB, c topology.Provider, pod *corev1.Pod) error {
	tb.Helper()
	m, err := topology.New(topology.Config{Providers: []topology.Provider{c}})
	if err != nil {
		tb.Fatal(err)
	}
	return m.Admit(tb.Context(), pod)
}

// told lists who has what, like "c0=1-2 c1=shared".
func told(c *CPUs, pod *corev1.Pod) string {
	var out []string
	for _, s := range order.Of(pod) {
		cpus, exclusive := c.Of(pod.UID, s.Name)
		text := cpus.String()
		if !exclusive {
			text = "shared"
		}
		out = append(out, fmt.Sprintf("%s=%s", s.Name, text))
	}
	return strings.Join(out, " ")
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func quantities(list map[corev1.ResourceName]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, q := range list {
		out[name] = resource.MustParse(q)
	}
	return out
}
