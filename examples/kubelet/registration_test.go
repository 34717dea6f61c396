package main

import (
	"io"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// TestNodeFlagsWithoutACluster: a node of its own has the labels of all flags, and the
// addresses that it was given.
func TestNodeFlagsWithoutACluster(t *testing.T) {
	o, err := parse([]string{"--node-labels=a=b,edge", "--node-labels", "c=d,a=z", "--node-ip=10.0.0.7,fd00::7"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := o.apply(node.Config{Kubelet: &kubeletconfig.KubeletConfiguration{}, Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "z", "c": "d", "edge": ""}, cfg.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	want := []netip.Addr{netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("fd00::7")}
	if diff := cmp.Diff(want, cfg.IPs, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
}
