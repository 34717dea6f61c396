package stats

import (
	"context"
	"time"

	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Kind says how the values of a Family are to be read.
type Kind int

// The kinds.
const (
	// Gauge is a value of now.
	Gauge Kind = iota
	// Counter only grows, until what it counts is made anew.
	Counter
)

// String returns "gauge" or "counter".
func (k Kind) String() string {
	if k == Counter {
		return "counter"
	}
	return "gauge"
}

// Family is a metric with its values, in the words of Prometheus but for any exporter.
type Family struct {
	// Name and Help name it; values are in the unit at the end of the name.
	Name, Help string
	Kind       Kind
	// Labels are the names of the labels of all samples.
	Labels []string
	// Samples are the values.
	Samples []Sample
}

// Sample is one value.
type Sample struct {
	// Values are those of the labels of the Family, in their order.
	Values []string
	Value  float64
	// At is when it was read; zero: it holds now.
	At time.Time
}

// add adds a sample.
func (f *Family) add(v float64, at time.Time, labels ...string) {
	f.Samples = append(f.Samples, Sample{Values: labels, Value: v, At: at})
}

// The labels of kubelets for containers and pods.
const (
	labelContainer = "container"
	labelPod       = "pod"
	labelNamespace = "namespace"
)

// Resource returns what autoscalers and metrics-server go by, as kubelets serve it on
// /metrics/resource (https://kubernetes.io/docs/reference/instrumentation/node-metrics/).
func (c *Collector) Resource(ctx context.Context) []Family {
	t := newResourceTable()
	failed := 0.0
	r := c.take(ctx)
	if r == nil || r.node == nil {
		failed = 1
	}
	if r != nil {
		t.node(r.node)
		for i := range r.pods {
			t.pod(&r.pods[i])
		}
	}
	t.errors.add(failed, time.Time{})
	return t.all()
}

// resourceTable are the families of Resource.
type resourceTable struct {
	nodeCPU, nodeMemory, nodeSwap                           Family
	containerCPU, containerMemory, containerSwap, swapLimit Family
	containerStart                                          Family
	podCPU, podMemory, podSwap                              Family
	errors                                                  Family
}

func newResourceTable() *resourceTable {
	ofContainer, ofPod := []string{labelContainer, labelPod, labelNamespace}, []string{labelPod, labelNamespace}
	return &resourceTable{
		nodeCPU:         Family{Name: "node_cpu_usage_seconds_total", Help: "CPU time that the node has used, in core-seconds.", Kind: Counter},
		nodeMemory:      Family{Name: "node_memory_working_set_bytes", Help: "The working set of the node."},
		nodeSwap:        Family{Name: "node_swap_usage_bytes", Help: "Swap that the node uses."},
		containerCPU:    Family{Name: "container_cpu_usage_seconds_total", Help: "CPU time that the container has used, in core-seconds.", Kind: Counter, Labels: ofContainer},
		containerMemory: Family{Name: "container_memory_working_set_bytes", Help: "The working set of the container.", Labels: ofContainer},
		containerSwap:   Family{Name: "container_swap_usage_bytes", Help: "Swap that the container uses.", Labels: ofContainer},
		swapLimit:       Family{Name: "container_swap_limit_bytes", Help: "Swap that the container may use.", Labels: ofContainer},
		containerStart:  Family{Name: "container_start_time_seconds", Help: "When the container was started, in seconds of Unix time.", Labels: ofContainer},
		podCPU:          Family{Name: "pod_cpu_usage_seconds_total", Help: "CPU time that the pod has used, in core-seconds.", Kind: Counter, Labels: ofPod},
		podMemory:       Family{Name: "pod_memory_working_set_bytes", Help: "The working set of the pod.", Labels: ofPod},
		podSwap:         Family{Name: "pod_swap_usage_bytes", Help: "Swap that the pod uses.", Labels: ofPod},
		errors:          Family{Name: "resource_scrape_error", Help: "1 if the node could not be read, else 0."},
	}
}

func (t *resourceTable) node(u *reading) {
	if u == nil {
		return
	}
	t.nodeCPU.add(u.CPU.Seconds(), u.Time)
	t.nodeMemory.add(float64(u.Memory.WorkingSet), u.Time)
	t.nodeSwap.add(float64(u.Swap.Usage), u.Time)
}

func (t *resourceTable) pod(p *podReading) {
	var sum *reading
	for i, u := range p.containers {
		if u == nil {
			continue
		}
		labels := []string{p.Containers[i].Name, p.Name, p.Namespace}
		t.containerStart.add(float64(p.Containers[i].Created.UnixNano())/float64(time.Second), time.Time{}, labels...)
		t.containerCPU.add(u.CPU.Seconds(), u.Time, labels...)
		t.containerMemory.add(float64(u.Memory.WorkingSet), u.Time, labels...)
		s := swapStats(u)
		t.containerSwap.add(float64(*s.SwapUsageBytes), u.Time, labels...)
		if s.SwapAvailableBytes != nil {
			t.swapLimit.add(float64(*s.SwapAvailableBytes+*s.SwapUsageBytes), u.Time, labels...)
		}
		sum = plus(sum, u)
	}
	if p.usage != nil {
		sum = p.usage
	}
	if sum == nil {
		return
	}
	t.podCPU.add(sum.CPU.Seconds(), sum.Time, p.Name, p.Namespace)
	t.podMemory.add(float64(sum.Memory.WorkingSet), sum.Time, p.Name, p.Namespace)
	t.podSwap.add(float64(sum.Swap.Usage), sum.Time, p.Name, p.Namespace)
}

func (t *resourceTable) all() []Family {
	return filled(t.nodeCPU, t.nodeMemory, t.nodeSwap, t.containerStart, t.containerCPU, t.containerMemory, t.containerSwap, t.swapLimit,
		t.podCPU, t.podMemory, t.podSwap, t.errors)
}

// filled returns the families that have samples.
func filled(families ...Family) []Family {
	out := make([]Family, 0, len(families))
	for _, f := range families {
		if len(f.Samples) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// Claims returns what volumes of PersistentVolumeClaims take up, each claim once, as
// kubelets serve it among their own metrics.
func (c *Collector) Claims(ctx context.Context) []Family {
	labels := []string{labelNamespace, "persistentvolumeclaim"}
	family := func(name, help string) Family {
		return Family{Name: "kubelet_volume_stats_" + name, Help: help, Labels: labels}
	}
	size, available, used := family("capacity_bytes", "The size of the volume."), family("available_bytes", "What is left in the volume."), family("used_bytes", "What is used of the volume.")
	inodes, free, usedInodes := family("inodes", "The inodes of the volume."), family("inodes_free", "The inodes that are left."), family("inodes_used", "The inodes that are used.")
	wait, cancel := context.WithTimeout(ctx, c.cfg.Ages.Patience)
	defer cancel()
	seen := map[statsapi.PVCReference]bool{}
	pods := c.cfg.Pods()
	volumes := c.askVolumes(pods, func(p *Pod) bool { return p.HasClaims }) //nolint:contextcheck // the question may outlive the request
	for i := range pods {
		s := volumes[pods[i].UID]
		if s == nil || !pods[i].HasClaims {
			continue
		}
		list, _ := s.get(wait)
		for _, v := range list {
			claim := statsapi.PVCReference{Namespace: pods[i].Namespace, Name: v.Claim}
			if v.Claim == "" || seen[claim] {
				continue
			}
			seen[claim] = true
			for _, m := range []struct {
				to    *Family
				value uint64
			}{{&size, v.Size}, {&available, v.Available}, {&used, v.Used}, {&inodes, v.Inodes}, {&free, v.InodesFree}, {&usedInodes, v.InodesUsed}} {
				m.to.add(float64(m.value), time.Time{}, claim.Namespace, claim.Name)
			}
		}
	}
	return filled(size, available, used, inodes, free, usedInodes)
}
