package node

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/allocatable/pinning"
	"github.com/nodekit-go/nodekit/allocatable/podresources"
	"github.com/nodekit-go/nodekit/allocatable/topology"
	"github.com/nodekit-go/nodekit/podworker/admission"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// alignment gives containers CPUs, memory and devices of NUMA nodes that suit. It is nil
// where another agent looks after the machine.
type alignment struct {
	manager *topology.Manager
	cpus    *pinning.CPUs
	memory  *pinning.Memory
	devices *deviceDesk
	metrics *alignmentMetrics
	// statics are the policies in force for CPUs and memory.
	staticCPUs, staticMemory bool
	period                   time.Duration
	// changed is sent when the shared CPUs may have changed.
	changed chan struct{}
}

// openAlignment reads who has which CPUs and which memory. Like a kubelet, the node does
// not start where it cannot keep what it promised.
func (n *Node) openAlignment() error {
	if n.guest {
		return nil
	}
	k, r := n.cfg.Kubelet, n.resources.p.Load()
	cfg, err := alignmentConfig(k, r.machine)
	if err != nil {
		return err
	}
	a := &alignment{
		devices: n.devices, metrics: n.cfg.metrics.alignment, changed: make(chan struct{}, 1),
		period: k.CPUManagerReconcilePeriod.Duration,
	}
	if a.cpus, err = n.newCPUs(cfg.Policy, a.metrics); err != nil {
		return err
	}
	if a.memory, err = n.newMemory(a.metrics); err != nil {
		return err
	}
	a.staticCPUs, a.staticMemory = k.CPUManagerPolicy == "static", k.MemoryManagerPolicy == kubeletconfig.StaticMemoryManagerPolicy
	if n.devices != nil {
		cfg.Providers = append(cfg.Providers, n.devices)
	}
	cfg.Providers = append(cfg.Providers, a.cpus, a.memory)
	cfg.Decided = func(pod *corev1.Pod, d topology.Decision) {
		n.log.Debug("NUMA nodes for a pod", "pod", fullName(pod), "container", d.Container, "hints", d.Hints, "best", d.Best, "admitted", d.Admitted)
		a.metrics.decided(cfg.Policy, cfg.Scope, d)
	}
	if a.manager, err = topology.New(cfg); err != nil {
		return err
	}
	a.metrics.follow(a.cpus)
	n.alignment = a
	return nil
}

// alignmentConfig reads the fields about NUMA nodes.
func alignmentConfig(k *kubeletconfig.KubeletConfiguration, m capacity.Machine) (cfg topology.Config, err error) {
	if cfg.Policy, err = topology.ParsePolicy(k.TopologyManagerPolicy); err != nil {
		return cfg, err
	}
	if cfg.Scope, err = topology.ParseScope(k.TopologyManagerScope); err != nil {
		return cfg, err
	}
	if cfg.Options, err = topology.ParseOptions(k.TopologyManagerPolicyOptions); err != nil {
		return cfg, err
	}
	nodes := []topology.Node{{Distances: []int{10}}}
	if len(m.NUMA) > 0 {
		nodes = nil
	}
	for _, numa := range m.NUMA {
		nodes = append(nodes, topology.Node{ID: numa.ID, Distances: numa.Distances})
	}
	cfg.Machine, err = topology.NewMachine(nodes)
	return cfg, err
}

// newCPUs returns the CPU manager of the configuration.
func (n *Node) newCPUs(policy topology.Policy, m *alignmentMetrics) (*pinning.CPUs, error) {
	k, r := n.cfg.Kubelet, n.resources.p.Load()
	cfg := pinning.CPUConfig{
		Topology: policy, Class: podstatus.QOSClass, Log: n.log,
		File: filepath.Join(n.cfg.Root, pinning.CPUFile),
	}
	var err error
	if cfg.Policy, err = pinning.ParseCPUPolicy(k.CPUManagerPolicy); err != nil {
		return nil, err
	}
	if cfg.Options, err = pinning.ParseCPUOptions(k.CPUManagerPolicyOptions); err != nil {
		return nil, err
	}
	if cfg.Policy == pinning.None {
		return pinning.NewCPUs(cfg)
	}
	places, err := capacity.ReadLayout(n.cfg.machineConfig(), r.machine)
	if err != nil {
		return nil, err
	}
	cpus := make([]pinning.CPU, len(places))
	for i, p := range places {
		cpus[i] = pinning.CPU(p)
	}
	if cfg.Layout, err = pinning.NewLayout(cpus); err != nil {
		return nil, err
	}
	if cfg.Reserved, err = pinning.ParseCPUSet(k.ReservedSystemCPUs); err != nil {
		return nil, fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	reserved := r.withheld(corev1.ResourceCPU)
	cfg.Reserve = int((reserved.MilliValue() + 999) / 1000)
	cfg.Asked = func(a pinning.CPUAnswer) { m.askedCPUs(a, cfg.Options) }
	return pinning.NewCPUs(cfg)
}

// newMemory returns the memory manager of the configuration.
func (n *Node) newMemory(m *alignmentMetrics) (*pinning.Memory, error) {
	k, r := n.cfg.Kubelet, n.resources.p.Load()
	cfg := pinning.MemoryConfig{Class: podstatus.QOSClass, Log: n.log, Asked: m.askedMemory, File: filepath.Join(n.cfg.Root, pinning.MemoryFile)}
	var err error
	if cfg.Policy, err = pinning.ParseMemoryPolicy(k.MemoryManagerPolicy); err != nil {
		return nil, err
	}
	if cfg.Policy == pinning.Static {
		if cfg.Nodes, err = r.memoryNodes(k.ReservedMemory); err != nil {
			return nil, err
		}
	}
	return pinning.NewMemory(cfg)
}

// withheld returns what of a resource is kept from pods, huge pages apart.
func (r *resources) withheld(name corev1.ResourceName) resource.Quantity {
	var sum resource.Quantity
	for _, t := range r.Terms {
		if t.Resource == name && t.Cause != allocatable.HugePages {
			sum.Add(t.Amount)
		}
	}
	return sum
}

// memoryNodes returns the NUMA nodes with what is reserved of their memory, which has to be
// as much together as is kept from pods.
func (r *resources) memoryNodes(reserved []kubeletconfig.MemoryReservation) ([]pinning.MemoryNode, error) {
	numa := r.machine.NUMA
	if len(numa) == 0 {
		numa = []capacity.NUMANode{{Memory: r.machine.Memory, HugePages: r.machine.HugePages}}
	}
	byNode, err := config.MemoryByNode(reserved, r.withheld(corev1.ResourceMemory))
	if err != nil {
		return nil, err
	}
	nodes := make([]pinning.MemoryNode, len(numa))
	for i, node := range numa {
		nodes[i] = pinning.MemoryNode{ID: node.ID, Memory: unsigned(node.Memory), Reserved: byNode[node.ID], HugePages: map[corev1.ResourceName]uint64{}}
		for _, pages := range node.HugePages {
			nodes[i].HugePages[pages.Resource()] = unsigned(pages.Bytes())
		}
		delete(byNode, node.ID)
	}
	for id := range byNode {
		return nil, fmt.Errorf("reservedMemory: the machine has no NUMA node %d", id)
	}
	return nodes, nil
}

func unsigned(n int64) uint64 { return uint64(max(n, 0)) } //nolint:gosec // not negative

// parts are what is told of CPUs and memory to programs that ask, nil where nothing is given
// to containers.
func (a *alignment) parts() (podresources.CPUs, podresources.Memory) {
	var cpus podresources.CPUs
	var memory podresources.Memory
	if a != nil && a.staticCPUs {
		cpus = cpusOf{a.cpus}
	}
	if a != nil && a.staticMemory {
		memory = memoryOf{a.memory}
	}
	return cpus, memory
}

// cpusOf are the CPUs as podresources takes them.
type cpusOf struct{ *pinning.CPUs }

// Assigned implements podresources.CPUs.
func (c cpusOf) Assigned(uid types.UID, container string) []int {
	return c.Exclusive(uid, container).List()
}

// Allocatable implements podresources.CPUs.
func (c cpusOf) Allocatable() []int { return c.CPUs.Allocatable().List() }

// memoryOf is the memory as podresources takes it.
type memoryOf struct{ *pinning.Memory }

// Assigned implements podresources.Memory.
func (m memoryOf) Assigned(uid types.UID, container string) []podresources.Block {
	return blocks(m.Blocks(uid, container))
}

// Allocatable implements podresources.Memory.
func (m memoryOf) Allocatable() []podresources.Block { return blocks(m.Memory.Allocatable()) }

func blocks(list []pinning.Block) []podresources.Block {
	out := make([]podresources.Block, len(list))
	for i, b := range list {
		out[i] = podresources.Block{Type: b.Type, Size: b.Size, Nodes: b.Nodes.IDs()}
	}
	return out
}

// admit gives a pod that is to start what it asks for.
func (a *alignment) admit(ctx context.Context, pod *corev1.Pod) admission.Decision {
	admitted := admission.Decision{Verdict: admission.Admitted}
	if a == nil {
		return admitted
	}
	if a.devices != nil {
		a.devices.await(pod.UID) // what is there changes meanwhile
	}
	began := time.Now()
	err := a.manager.Admit(ctx, pod)
	a.metrics.admitted(a.manager.Policy(), time.Since(began), err)
	a.wake()
	if err == nil {
		return admitted
	}
	reason, message := topology.Reason(err)
	d := admission.Decision{Verdict: admission.Never, Reason: reason, Message: message}
	if mayFitLater(pod, err) {
		d.Verdict = admission.NotYet
	}
	return d
}

// mayFitLater reports whether a refused pod is to wait. Nobody replaces a pod of a manifest
// that has failed; others fail, as with a kubelet, so that they are placed anew.
func mayFitLater(pod *corev1.Pod, err error) bool {
	type patient interface {
		error
		NotYet() bool
	}
	if later, ok := errors.AsType[patient](err); ok {
		return later.NotYet() || ofManifest(pod)
	}
	cores, ok := errors.AsType[*topology.SMTError](err)
	return ofManifest(pod) && (!ok || cores.Available >= 0)
}

// restore gives a pod that runs already what it has, or asks for.
func (a *alignment) restore(ctx context.Context, pod *corev1.Pod) error {
	if a == nil {
		return nil
	}
	defer a.wake()
	return a.manager.Restore(ctx, pod)
}

// release takes back what a pod has.
func (a *alignment) release(uid types.UID) {
	if a != nil {
		a.manager.Release(uid)
		a.wake()
	}
}

// retain takes back what pods have that are gone.
func (a *alignment) retain(wanted func(types.UID) bool) {
	if a != nil {
		a.cpus.Retain(wanted)
		a.memory.Retain(wanted)
		a.wake()
	}
}

// pinned reports whether a pod has CPUs to itself.
func (a *alignment) pinned(pod *corev1.Pod) bool { return a != nil && a.cpus.Pins(pod.UID) }

// exclusive reports whether a container has CPUs to itself.
func (a *alignment) exclusive(uid types.UID, container string) bool {
	if a == nil {
		return false
	}
	_, exclusive := a.cpus.Of(uid, container)
	return exclusive
}

// extend adds the CPUs and the memory of a container to what it is given.
func (a *alignment) extend(e *podspec.Extra, pod *corev1.Pod, container string) {
	if a == nil {
		return
	}
	cpus, exclusive := a.cpus.Of(pod.UID, container)
	e.CPUs, e.NoCPUQuota = cpus.String(), exclusive
	a.memory.Starts(pod, container)
	if nodes := a.memory.Of(pod.UID, container); nodes != 0 {
		e.MemoryNodes = nodes.String()
	}
}

// resizes says why a pod may not have other resources than it has, empty if it may.
func (a *alignment) resizes(pod, has *corev1.Pod) string {
	if a == nil || podstatus.QOSClass(pod) != corev1.PodQOSGuaranteed {
		return ""
	}
	const message = "Resize is infeasible for Guaranteed Pods alongside %s Manager policy %q"
	switch {
	case a.staticCPUs && asksForOther(corev1.ResourceCPU, pod, has):
		return fmt.Sprintf(message, "CPU", "static")
	case a.staticMemory && asksForOther(corev1.ResourceMemory, pod, has):
		return fmt.Sprintf(message, "Memory", "Static")
	}
	return ""
}

// asksForOther reports whether a container asks for more or less of a resource than it has.
func asksForOther(name corev1.ResourceName, pod, has *corev1.Pod) bool {
	had := map[string]resource.Quantity{}
	for _, list := range [][]corev1.Container{has.Spec.InitContainers, has.Spec.Containers} {
		for i := range list {
			had[list[i].Name] = list[i].Resources.Requests[name]
		}
	}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			before, now := had[list[i].Name], list[i].Resources.Requests[name]
			if before.Cmp(now) != 0 {
				return true
			}
		}
	}
	return false
}

// wake has the shared CPUs told soon.
func (a *alignment) wake() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// keepPinned tells running containers their CPUs until ctx ends: when these may have
// changed, and from time to time.
func (a *agent) keepPinned(ctx context.Context) error {
	if a.alignment == nil || !a.alignment.staticCPUs {
		return nil
	}
	tick := time.NewTicker(a.alignment.period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-a.alignment.changed:
		}
		err := a.alignment.cpus.Reconcile(ctx, a.running(), func(ctx context.Context, id string, cpus pinning.CPUSet) error {
			linux := &runtimeapi.LinuxContainerResources{CpusetCpus: cpus.String()}
			return a.runtime.UpdateContainerResources(ctx, id, &runtimeapi.ContainerResources{Linux: linux})
		})
		if err != nil && ctx.Err() == nil {
			a.log.Warn("containers run on CPUs that others have to themselves", "err", err)
		}
	}
}

// running are the containers that run of the pods that hold resources.
func (a *agent) running() []pinning.Running {
	var out []pinning.Running
	snap := a.snapshot.Load()
	for _, pod := range a.admissions.active() {
		p := snap.Pods[pod.UID]
		if p == nil {
			continue
		}
		for _, c := range p.Containers {
			if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				out = append(out, pinning.Running{Pod: pod.UID, Name: c.GetMetadata().GetName(), ID: c.GetId()})
			}
		}
	}
	return out
}

// retainAlignment takes back what pods have that nobody wants and that do not run, as those
// that went while no agent ran.
func (a *agent) retainAlignment() {
	if a.alignment == nil || !a.catalog.ready() {
		return
	}
	a.alignment.retain(a.keeps)
}

// keeps reports whether a pod keeps what it was given: it runs, or has a worker that has
// not finished, or will have one.
func (a *agent) keeps(uid types.UID) bool {
	s, known := a.pool.State(uid)
	if known {
		return !s.Done() || a.runs(uid)
	}
	return a.catalog.wants(uid) || a.runs(uid)
}
