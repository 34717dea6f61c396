package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/podworker/admission"
)

// resources are what the machine has and what of it pods may have.
type resources struct {
	machine capacity.Machine
	allocatable.Result
}

// lateResources are there once the machine has been read.
type lateResources struct{ p atomic.Pointer[resources] }

// resourcesOf computes what a machine offers. The error names what is reserved beyond
// what there is; the result is usable beside it.
func resourcesOf(m capacity.Machine, k *kubeletconfig.KubeletConfiguration) (*resources, error) {
	reserved, unreadable := config.Reserved(k)
	has := m.Resources(config.Pods(k, len(m.CPUs)))
	if ignoresStorage(k) {
		delete(has, corev1.ResourceEphemeralStorage)
	}
	result, impossible := allocatable.Compute(has, reserved)
	err := errors.Join(unreadable, config.CheckCPUs(k, m.CPUs), impossible)
	return &resources{machine: m, Result: result}, err
}

// ignoresStorage reports whether local storage is not to be a resource: no pod is placed by
// it, and its limits are nobody's business.
func ignoresStorage(k *kubeletconfig.KubeletConfiguration) bool {
	return k.LocalStorageCapacityIsolation != nil && !*k.LocalStorageCapacityIsolation
}

// machineConfig says where the machine is read.
func (c Config) machineConfig() capacity.Config {
	m := c.Machine
	m.StorageDir = cmp.Or(m.StorageDir, c.Root)
	if m.Log == nil {
		m.Log = c.Log
	}
	return m
}

// readMachine reads the machine for the first time. Like a kubelet, the node does not
// start with more reserved than there is.
func (n *Node) readMachine() error {
	m, err := capacity.Read(n.cfg.machineConfig())
	if err != nil {
		return err
	}
	r, err := resourcesOf(m, n.cfg.Kubelet)
	if err != nil {
		return fmt.Errorf("compute what the node offers: %w", err)
	}
	if n.sysctls, err = admission.NewSysctls(m.Info.KernelVersion, n.cfg.Kubelet.AllowedUnsafeSysctls); err != nil {
		return err
	}
	n.resources.p.Store(r)
	n.logResources("the node offers", r)
	return nil
}

// watchMachine follows what the machine has. Pods that run keep what they were given.
func (n *Node) watchMachine(ctx context.Context) error {
	return capacity.Watch(ctx, n.cfg.machineConfig(), func(m capacity.Machine, changes []capacity.Change) {
		if len(changes) == 0 {
			return
		}
		r, err := resourcesOf(m, n.cfg.Kubelet)
		if err != nil {
			n.log.Error("more is reserved than the machine has now", "err", err)
		}
		n.resources.p.Store(r)
		for _, c := range changes {
			n.log.Info("the machine has changed", "what", c.What, "now", c.New, "before", c.Old)
		}
		n.logResources("the node offers now", r)
		if a := n.agent.get(); a != nil {
			a.machineChanged(r)
		}
	})
}

func (n *Node) logResources(what string, r *resources) {
	var args []any
	for _, name := range sorted(r.Allocatable) {
		q := r.Allocatable[name]
		args = append(args, string(name), q.String())
	}
	n.log.Info(what, args...)
	for _, name := range sorted(r.Allocatable) {
		had, left := r.Capacity[name], r.Allocatable[name]
		if left.IsZero() && !had.IsZero() {
			n.log.Warn("nothing of a resource is left for pods", "resource", name, "capacity", had.String(), "kept", r.kept(name))
		}
	}
}

// object returns the node as the API server has it, with the resources that it has now;
// without an API server, as far as it is known here.
func (n *Node) object() *corev1.Node {
	r := n.resources.p.Load()
	known := n.beat.object()
	if known == nil {
		known = n.unregistered()
	}
	out := known.DeepCopy()
	out.TypeMeta = metav1.TypeMeta{Kind: "Node", APIVersion: "v1"}
	out.Status.Capacity = overlaid(out.Status.Capacity, r.Capacity)
	out.Status.Allocatable = overlaid(out.Status.Allocatable, r.Allocatable)
	n.devices.overlay(&out.Status)
	n.showFeatures(&out.Status)
	n.pressures().show(out)
	return out
}

// overlaid returns a list with the quantities of another one.
func overlaid(list, with corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(with)
	for name, q := range list {
		if _, ok := out[name]; !ok {
			out[name] = q
		}
	}
	return out
}
