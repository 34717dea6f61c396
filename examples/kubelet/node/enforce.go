package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/podworker/events"
)

// What enforceNodeAllocatable can name
// (https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources).
const (
	enforcePods               = "pods"
	enforceSystem             = "system-reserved"
	enforceKube               = "kube-reserved"
	enforceSystemCompressible = "system-reserved-compressible"
	enforceKubeCompressible   = "kube-reserved-compressible"
)

// enforceAgain is the time between two attempts to hold all pods to what they may have.
const enforceAgain = time.Minute

func enforces(k *kubeletconfig.KubeletConfiguration, what string) bool {
	return slices.Contains(k.EnforceNodeAllocatable, what)
}

// offered is what all pods together may have, process IDs among it: the capacity, and if
// pods are held to what the node offers, without what is reserved. What hard eviction keeps
// free counts: eviction needs room to act.
func offered(r *resources, k *kubeletconfig.KubeletConfiguration) corev1.ResourceList {
	if enforces(k, enforcePods) {
		return r.PodsLimit()
	}
	most := maps.Clone(r.Capacity)
	if pids, ok := r.machine.Resources(0)[allocatable.PID]; ok {
		most[allocatable.PID] = pids
	}
	return most
}

// enforceReserved holds the control groups of what runs beside the pods to what is
// reserved for it.
func (c *podCgroups) enforceReserved(ctx context.Context, k *kubeletconfig.KubeletConfiguration) error {
	reserved, _ := config.Reserved(k) // was read before
	for _, e := range []struct {
		whole, compressible, group string
		list                       corev1.ResourceList
	}{
		{enforceSystem, enforceSystemCompressible, k.SystemReservedCgroup, reserved.System},
		{enforceKube, enforceKubeCompressible, k.KubeReservedCgroup, reserved.Kube},
	} {
		whole := enforces(k, e.whole)
		if !whole && !enforces(k, e.compressible) {
			continue
		}
		if err := c.EnforceReserved(ctx, e.group, e.list, !whole); err != nil {
			return fmt.Errorf("enforceNodeAllocatable: %w", err)
		}
	}
	return nil
}

// fitMachine has those know what the machine has now who measure by it.
func (a *agent) fitMachine(r *resources) {
	a.volumes.manager.SetAllocatable(r.Allocatable)
	a.pressure.fit(r)
}

// machineChanged has the agent live with what the machine has now.
func (a *agent) machineChanged(r *resources) {
	a.fitMachine(r)
	if a.cgroups != nil {
		select {
		case a.cgroups.changed <- struct{}{}:
		default: // it is about to look
		}
	}
	a.wakeWaiting()
}

// enforce holds all pods to what they may have, anew when the machine has changed. While
// they use more memory than that, it is tried again: eviction makes room meanwhile.
func (a *agent) enforce(ctx context.Context) error {
	if a.cgroups == nil || a.cgroups.guest {
		return nil
	}
	n := a.cgroups.node
	if err := a.cgroups.enforceReserved(ctx, n.cfg.Kubelet); err != nil {
		return err
	}
	tick := time.NewTicker(enforceAgain)
	defer tick.Stop()
	for {
		again := tick.C
		err := a.cgroups.EnforcePods(ctx, offered(n.resources.p.Load(), n.cfg.Kubelet))
		if ctx.Err() != nil {
			return nil
		}
		if err == nil {
			again = nil
			a.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeNormal, "NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
		} else {
			a.log.Warn("all pods could not be held to what they may have", "again", enforceAgain, "err", err)
			a.events.Record(events.OfNode(n.cfg.Name), corev1.EventTypeWarning, "FailedNodeAllocatableEnforcement", "Failed to update Node Allocatable Limits "+err.Error())
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
		case <-a.cgroups.changed:
		}
	}
}
