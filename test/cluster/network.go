package cluster

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// Addresses mean nothing outside the cluster's namespaces: all clusters use the
// same ones.
const (
	// ServiceRange is where Services get their addresses.
	ServiceRange = "10.96.0.0/16"
	// PodRange is where pods get their addresses, a /24 of it per node.
	PodRange = "10.244.0.0/16"
	// DNSAddress is the address of the Service kube-dns.
	DNSAddress = "10.96.0.10"
	// ClusterDomain is the suffix of the names in the cluster's DNS.
	ClusterDomain = "cluster.local"

	apiServiceAddress = "10.96.0.1" // The first of ServiceRange; the API server takes it.
	hubAddress        = "10.20.0.1" // The control plane's.
	apiPort           = 6443
	bridge            = "hub"
	// maxNodes is how many nodes the address plan has room for.
	maxNodes = 200
)

// The first node is node 0; its addresses end in firstNode.
const firstNode = 10

func nodeAddress(index int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 20, 0, byte(firstNode + index)})
}

func podRange(index int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(firstNode + index), 0}), 24)
}

// makeHub makes the bridge that joins the nodes. It has the control plane's address,
// and forwards what one node's pods send to another's.
func makeHub(ctx context.Context, plane *testnode.Node) error {
	if err := sysctl(ctx, plane, "net/ipv4/ip_forward", "1"); err != nil {
		return err
	}
	return plane.IP(ctx,
		[]string{"link", "add", bridge, "type", "bridge", "forward_delay", "0", "mcast_snooping", "0"},
		[]string{"address", "add", hubAddress + "/24", "dev", bridge},
		[]string{"link", "set", bridge, "up"},
	)
}

// joinHub gives a node its address on a link called name, and tells the control plane
// the way to its pods. The nodes reach each other's pods through the control plane: a
// route to each other would have to be made on all of them whenever one is added.
func joinHub(ctx context.Context, plane, node *testnode.Node, index int, name string) error {
	port := "node" + strconv.Itoa(index)
	err := plane.IP(ctx,
		[]string{"link", "add", port, "type", "veth", "peer", "name", name, "netns", node.Namespace()},
		[]string{"link", "set", port, "master", bridge},
		[]string{"link", "set", port, "up"},
		[]string{"route", "replace", podRange(index).String(), "via", nodeAddress(index).String()},
	)
	if err != nil {
		return err
	}
	if err := sysctl(ctx, node, "net/ipv4/ip_forward", "1"); err != nil {
		return err
	}
	return node.IP(ctx,
		[]string{"address", "add", nodeAddress(index).String() + "/24", "dev", name},
		[]string{"link", "set", name, "up"},
	)
}

// joinAsNode joins a node whose namespace is the cluster's.
func joinAsNode(ctx context.Context, plane, node *testnode.Node, index int) error {
	if err := joinHub(ctx, plane, node, index, "eth0"); err != nil {
		return err
	}
	return node.IP(ctx, []string{"route", "add", "default", "via", hubAddress})
}

// podNetwork is a chain of the plugins bridge, host-local and portmap, without
// masquerading: a pod's address is seen as it is on other nodes.
func podNetwork(node *testnode.Node, index int) []map[string]any {
	return []map[string]any{
		{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
			"ipam": map[string]any{
				"type":    "host-local",
				"ranges":  [][]map[string]string{{{"subnet": podRange(index).String()}}},
				"routes":  []map[string]string{{"dst": "0.0.0.0/0"}},
				"dataDir": node.Dir("ipam"),
			},
		},
		{"type": "portmap", "capabilities": map[string]bool{"portMappings": true}},
	}
}

func sysctl(ctx context.Context, node *testnode.Node, name, value string) error {
	out, err := node.Command(ctx, "sh", "-c", "echo "+value+" >/proc/sys/"+name).CombinedOutput()
	if err != nil {
		return fmt.Errorf("set %s: %w: %s", name, err, out)
	}
	return nil
}
