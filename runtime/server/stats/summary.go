package stats

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// CPUAndMemory tells what the node and its pods use of CPU, memory and swap. It asks the
// runtime about nothing but containers whose groups are not there.
func (c *Collector) CPUAndMemory(ctx context.Context) *statsapi.Summary {
	return c.summaryOf(c.take(ctx))
}

// summaryOf tells what was read of groups. Its pods are in the order of those of r.
func (c *Collector) summaryOf(r *round) *statsapi.Summary {
	s := &statsapi.Summary{Node: statsapi.NodeStats{NodeName: c.cfg.Node}, Pods: []statsapi.PodStats{}}
	if r == nil {
		return s
	}
	machine := c.cfg.Machine()
	s.Node.StartTime = metav1.NewTime(machine.Booted)
	if r.node != nil {
		node := *r.node
		if machine.MemoryBytes > 0 {
			node.Memory.Limit = machine.MemoryBytes
		}
		p := c.pressureOf(r.node)
		s.Node.CPU, s.Node.Memory, s.Node.Swap = cpuStats(&node, p.CPU), memoryStats(&node, p.Memory), swapStats(&node)
		if a := s.Node.Memory.AvailableBytes; a != nil {
			*a -= min(machine.HugePages, *a) // pages that nothing else can have
		}
		if machine.MemoryBytes > 0 && s.Node.Swap.SwapAvailableBytes == nil {
			s.Node.Swap.SwapAvailableBytes = new(machine.SwapBytes - min(machine.SwapBytes, node.Swap.Usage))
		}
		s.Node.IO = ioStats(&node, p.IO)
	}
	for _, system := range r.system {
		s.Node.SystemContainers = append(s.Node.SystemContainers, c.containerOf(system.Name, system.Started, system.usage))
	}
	for i := range r.pods {
		s.Pods = append(s.Pods, c.podOf(&r.pods[i]))
	}
	return s
}

// podOf is what a pod uses of CPU and memory.
func (c *Collector) podOf(p *podReading) statsapi.PodStats {
	out := statsapi.PodStats{
		PodRef:     statsapi.PodReference{Name: p.Name, Namespace: p.Namespace, UID: string(p.UID)},
		StartTime:  metav1.NewTime(p.Created),
		Containers: []statsapi.ContainerStats{},
	}
	var sum *reading
	for i, u := range p.containers {
		if u == nil {
			continue
		}
		out.Containers = append(out.Containers, c.containerOf(p.Containers[i].Name, p.Containers[i].Created, u))
		sum = plus(sum, u)
	}
	var pressure cgroupstat.Pressure
	if p.usage != nil {
		sum, pressure = p.usage, c.pressureOf(p.usage)
	}
	if sum != nil {
		out.CPU, out.Memory, out.Swap = cpuStats(sum, pressure.CPU), memoryStats(sum, pressure.Memory), swapStats(sum)
		out.IO = ioStats(sum, pressure.IO)
	}
	return out
}

// plus adds what containers use, for a pod whose group is not there.
func plus(sum, u *reading) *reading {
	if sum == nil {
		first := *u
		return &first
	}
	if u.Time.After(sum.Time) {
		sum.Time = u.Time
	}
	sum.CPU += u.CPU
	sum.nanoCores, sum.rated = sum.nanoCores+u.nanoCores, sum.rated && u.rated
	a, b := &sum.Memory, &u.Memory
	a.Usage, a.WorkingSet, a.RSS = a.Usage+b.Usage, a.WorkingSet+b.WorkingSet, a.RSS+b.RSS
	a.Faults, a.MajorFaults = a.Faults+b.Faults, a.MajorFaults+b.MajorFaults
	a.Limit = sumLimits(a.Limit, b.Limit)
	sum.Swap = cgroupstat.Swap{Usage: sum.Swap.Usage + u.Swap.Usage, Limit: sumLimits(sum.Swap.Limit, u.Swap.Limit)}
	return sum
}

func sumLimits(a, b uint64) uint64 {
	if a >= cgroupstat.Unlimited || b >= cgroupstat.Unlimited-a {
		return cgroupstat.Unlimited
	}
	return a + b
}

// containerOf is what a container, or a daemon, uses of CPU and memory.
func (c *Collector) containerOf(name string, started time.Time, u *reading) statsapi.ContainerStats {
	p := c.pressureOf(u)
	return statsapi.ContainerStats{
		Name: name, StartTime: metav1.NewTime(started),
		CPU: cpuStats(u, p.CPU), Memory: memoryStats(u, p.Memory), Swap: swapStats(u), IO: ioStats(u, p.IO),
	}
}

func cpuStats(u *reading, s *cgroupstat.Stall) *statsapi.CPUStats {
	out := &statsapi.CPUStats{Time: metav1.NewTime(u.Time), UsageCoreNanoSeconds: new(uint64(max(u.CPU, 0))), PSI: psiOf(s)}
	if u.rated {
		out.UsageNanoCores = new(u.nanoCores)
	}
	return out
}

func memoryStats(u *reading, s *cgroupstat.Stall) *statsapi.MemoryStats {
	m := &u.Memory
	out := &statsapi.MemoryStats{
		Time: metav1.NewTime(u.Time), UsageBytes: new(m.Usage), WorkingSetBytes: new(m.WorkingSet), RSSBytes: new(m.RSS),
		PageFaults: new(m.Faults), MajorPageFaults: new(m.MajorFaults), PSI: psiOf(s),
	}
	if m.Limit < cgroupstat.Unlimited {
		out.AvailableBytes = new(m.Limit - min(m.WorkingSet, m.Limit))
	}
	return out
}

func swapStats(u *reading) *statsapi.SwapStats {
	out := &statsapi.SwapStats{Time: metav1.NewTime(u.Time), SwapUsageBytes: new(u.Swap.Usage)}
	if u.Swap.Limit < cgroupstat.Unlimited {
		out.SwapAvailableBytes = new(u.Swap.Limit - min(u.Swap.Usage, u.Swap.Limit))
	}
	return out
}

// ioStats is nil where the kernel does not tell how long is waited for devices.
func ioStats(u *reading, s *cgroupstat.Stall) *statsapi.IOStats {
	if s == nil {
		return nil
	}
	return &statsapi.IOStats{Time: metav1.NewTime(u.Time), PSI: psiOf(s)}
}

func psiOf(s *cgroupstat.Stall) *statsapi.PSIStats {
	if s == nil {
		return nil
	}
	data := func(w cgroupstat.Waiting) statsapi.PSIData {
		return statsapi.PSIData{Total: uint64(max(w.Total, 0)), Avg10: w.Avg10, Avg60: w.Avg60, Avg300: w.Avg300}
	}
	return &statsapi.PSIStats{Some: data(s.Some), Full: data(s.Full)}
}

// Summary tells all that is known of the node and its pods.
func (c *Collector) Summary(ctx context.Context) *statsapi.Summary {
	c.askRuntime() //nolint:contextcheck // the question may outlive the request
	c.askImages()  //nolint:contextcheck // the question may outlive the request
	c.askDisks()   //nolint:contextcheck // the question may outlive the request
	r := c.take(ctx)
	s := c.summaryOf(r)
	if r == nil {
		return s
	}
	volumes := c.askVolumes(r.list, every) //nolint:contextcheck // the question may outlive the request
	wait, cancel := context.WithTimeout(ctx, c.cfg.Ages.Patience)
	defer cancel()
	told, _ := c.runtime.get(wait)
	images, _ := c.images.get(wait)
	disks, _ := c.disks.get(wait)
	s.Node.Runtime = &statsapi.RuntimeStats{ImageFs: images.images.stats(), ContainerFs: images.containers.stats()}
	if disks.node.known {
		s.Node.Fs = disks.node.stats(disks.at, &taken{disks.node.usedBytes, disks.node.usedInodes})
	}
	s.Node.Rlimit = rlimitStats()
	if links, err := ownLinks(); err == nil {
		s.Node.Network = networkStats(r.at, links)
	}
	for i := range s.Pods {
		pod, p := &s.Pods[i], &r.pods[i]
		pod.Network = networkStats(r.at, c.links(p))
		pod.ProcessStats = c.processes(p)
		var list []Volume
		if v := volumes[p.UID]; v != nil {
			var at time.Time
			list, at = v.get(wait)
			pod.VolumeStats = volumeStats(p.Namespace, list, at)
		}
		storageOf(pod, p, list, measured{&told, &disks})
	}
	return s
}

// processes counts those of the containers of a pod; nil if nothing is known.
func (c *Collector) processes(p *podReading) *statsapi.ProcessStats {
	var n uint64
	known := false
	for _, u := range p.containers {
		if u == nil || u.group == "" {
			continue
		}
		if pids, err := c.cfg.Groups.Processes(u.group); err == nil {
			n, known = n+uint64(len(pids)), true
		}
	}
	if !known {
		return nil
	}
	return &statsapi.ProcessStats{ProcessCount: &n}
}

// mainInterface is the one that stands for a pod or a node, as in kubelets.
const mainInterface = "eth0"

// networkStats is nil without interfaces.
func networkStats(at time.Time, links []link) *statsapi.NetworkStats {
	if links == nil {
		return nil
	}
	out := &statsapi.NetworkStats{Time: metav1.NewTime(at)}
	for _, l := range links {
		i := statsapi.InterfaceStats{Name: l.name, RxBytes: new(l.rxBytes), RxErrors: new(l.rxErrors), TxBytes: new(l.txBytes), TxErrors: new(l.txErrors)}
		if l.name == mainInterface {
			out.InterfaceStats = i
		}
		out.Interfaces = append(out.Interfaces, i)
	}
	return out
}
