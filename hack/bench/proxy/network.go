package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// network is what the connections go through: a client, the node with the proxy under
// test, and one namespace that has the addresses of all endpoints. The API server has
// one of its own.
//
//	client 172.16.1.2 ── node 172.16.1.1 / 172.16.2.1 ── 172.16.2.2 endpoints 10.128.0.0/9
//	                      └ 172.16.3.1 ── 172.16.3.2 control plane
type network struct{ client, node, endpoints, control string }

// Addresses that do not change.
const (
	controlAddr = "172.16.3.2"
	nodeAddr    = "172.16.3.1"
	vips        = "10.96.0.0/12"
	pods        = "10.128.0.0/9"
)

func newNetwork(ctx context.Context) (*network, error) {
	p := fmt.Sprintf("bp%d-", os.Getpid())
	n := &network{client: p + "c", node: p + "n", endpoints: p + "e", control: p + "a"}
	script := []string{}
	for _, ns := range n.all() {
		script = append(script, "netns add "+ns, "-n "+ns+" link set lo up")
	}
	for i, peer := range []string{n.client, n.endpoints, n.control} {
		link := fmt.Sprintf("eth%d", i+1)
		script = append(script,
			fmt.Sprintf("link add %s netns %s type veth peer name eth0 netns %s", link, n.node, peer),
			fmt.Sprintf("-n %s addr add 172.16.%d.1/24 dev %s", n.node, i+1, link),
			fmt.Sprintf("-n %s link set %s up", n.node, link),
			fmt.Sprintf("-n %s addr add 172.16.%d.2/24 dev eth0", peer, i+1),
			fmt.Sprintf("-n %s link set eth0 up", peer),
			fmt.Sprintf("-n %s route add default via 172.16.%d.1", peer, i+1))
	}
	script = append(script,
		"-n "+n.endpoints+" route add local "+pods+" dev lo",
		"-n "+n.node+" route add "+pods+" via 172.16.2.2",
		// A virtual address must have some route, else the kernel refuses before any rule.
		"-n "+n.node+" route add unreachable "+vips)
	for _, line := range script {
		if _, err := output(ctx, "ip", strings.Fields(line)...); err != nil {
			n.remove()
			return nil, err
		}
	}
	err := inside(n.node, func() error {
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644),
			os.WriteFile("/proc/sys/net/ipv4/icmp_ratelimit", []byte("0"), 0o644))
	})
	return n, err
}

func (n *network) all() []string { return []string{n.client, n.node, n.endpoints, n.control} }

func (n *network) remove() {
	for _, ns := range n.all() {
		_, _ = output(context.Background(), "ip", "netns", "del", ns)
	}
}

// inside runs f on a thread of its own in a namespace. The thread ends with f.
func inside(ns string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread is thrown away
		done <- func() error {
			file, err := os.Open("/run/netns/" + ns)
			if err != nil {
				return err
			}
			defer file.Close()
			if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter %s: %w", ns, err)
			}
			return f()
		}()
	}()
	return <-done
}
