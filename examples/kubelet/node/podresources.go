package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/allocatable/podresources"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// podResourcesDir and podResourcesSocket are where programs ask who has what
// (https://kubernetes.io/docs/reference/node/kubelet-files/).
const (
	podResourcesDir    = "pod-resources"
	podResourcesSocket = "kubelet.sock"
)

// servePodResources answers who has which devices until ctx ends.
func (n *Node) servePodResources(ctx context.Context) error {
	cfg := podresources.Config{Pods: podsOfNode{n}, Devices: n.devices, Asked: newPodResourcesMetrics(n.cfg.metrics), Log: n.log}
	cfg.CPUs, cfg.Memory = n.alignment.parts()
	s, err := podresources.New(cfg)
	if err != nil {
		return err
	}
	dir := filepath.Join(n.cfg.Root, podResourcesDir)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("make the directory of the API podresources: %w", err)
	}
	l, err := listenSocket(ctx, filepath.Join(dir, podResourcesSocket))
	if err != nil {
		return err
	}
	return s.Run(ctx, l)
}

// podsOfNode are the pods of a node, none before its runtime has answered.
type podsOfNode struct{ node *Node }

// Active implements podresources.Pods.
func (p podsOfNode) Active() []*corev1.Pod {
	a := p.node.agent.get()
	if a == nil {
		return nil
	}
	var out []*corev1.Pod
	for _, pod := range a.admissions.active() {
		if st, _ := p.node.catalog.status(pod.UID); !podstatus.IsTerminal(st.Phase) {
			out = append(out, pod)
		}
	}
	return out
}

// Named implements podresources.Pods.
func (p podsOfNode) Named(namespace, name string) (*corev1.Pod, bool) {
	for _, k := range p.node.catalog.known() {
		if k.pod.Namespace == namespace && k.pod.Name == name {
			return k.pod, true
		}
	}
	return nil, false
}
