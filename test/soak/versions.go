package soak

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	"github.com/nodekit-go/nodekit/test/cluster"
)

// versions name what runs, by what the node says of itself, and the commit of the working
// tree. What cannot be found is told to be unknown.
func versions(ctx context.Context, node *cluster.Node) []string {
	commit := "unknown"
	if out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output(); err == nil {
		commit = string(bytes.TrimSpace(out))
	}
	object, err := node.Object(ctx)
	if err != nil {
		return []string{"nodekit " + commit, "node unknown"}
	}
	info := object.Status.NodeInfo
	return []string{
		"kubelet " + info.KubeletVersion, "kernel " + info.KernelVersion,
		info.ContainerRuntimeVersion, "nodekit " + commit,
	}
}

// line tells of a sample.
func line(s Sample, l *log) string {
	sent, failed := l.requestsSoFar()
	text := fmt.Sprintf("%3d containers, kubelet %d goroutines %d files %s, kube-proxy %d %d %s, %d rules %d elements, %d requests %d failed",
		s.Counts[Containers], s.Counts[KubeletGoroutines], s.Counts[KubeletFiledes], megabytes(float64(s.Counts[KubeletMemory])),
		s.Counts[ProxyGoroutines], s.Counts[ProxyFiledes], megabytes(float64(s.Counts[ProxyMemory])),
		s.Counts[Rules], s.Counts[Elements], sent, failed)
	if s.Quiet {
		text = "quiet: " + text + fmt.Sprintf(", live heaps %s %s", megabytes(float64(s.Counts[KubeletHeap])), megabytes(float64(s.Counts[ProxyHeap])))
	}
	return text
}
