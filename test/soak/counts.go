package soak

// Measure is something that is counted on the node.
type Measure string

// What is counted. Without a unit, things; the heaps and the resident memory in bytes.
const (
	Sandboxes     Measure = "sandboxes"
	Containers    Measure = "containers"
	Cgroups       Measure = "control groups"
	KubeletMounts Measure = "mounts that the kubelet sees"
	RuntimeMounts Measure = "mounts that the runtime sees"
	PodFolders    Measure = "folders of pods"
	KubeletFiles  Measure = "files of the kubelet"
	LogFolders    Measure = "folders of logs"
	LogLinks      Measure = "links to logs"
	Addresses     Measure = "files of pods' addresses"
	Links         Measure = "network links"
	Chains        Measure = "chains"
	Rules         Measure = "rules"
	Elements      Measure = "elements of sets and maps"

	KubeletGoroutines Measure = "goroutines of the kubelet"
	ProxyGoroutines   Measure = "goroutines of kube-proxy"
	KubeletFiledes    Measure = "file descriptors of the kubelet"
	ProxyFiledes      Measure = "file descriptors of kube-proxy"

	// KubeletHeap and ProxyHeap are those after a collection, at quiet points only.
	KubeletHeap Measure = "live heap of the kubelet"
	ProxyHeap   Measure = "live heap of kube-proxy"
	// KubeletMemory and ProxyMemory are anonymous, without the pages of the program's file.
	KubeletMemory Measure = "resident memory of the kubelet"
	ProxyMemory   Measure = "resident memory of kube-proxy"

	// KubeletPID and ProxyPID are ids of processes, which change when a program ends.
	KubeletPID Measure = "process of the kubelet"
	ProxyPID   Measure = "process of kube-proxy"
)

// Counts is what was counted at one moment. What cannot be counted with a kit, such as the
// mounts of somebody else's runtime, is missing.
type Counts map[Measure]int64

// limit is how much more than at the beginning there may be at a quiet point.
type limit struct {
	measure   Measure
	tolerance int64
}

// spare is the tolerance for goroutines and file descriptors: connections that a program
// keeps for a while, to the API server and to the runtime, and those by which it is
// measured. Hundreds of pods come and go between two quiet points, so what leaks with each
// of them, or with each tenth, is more than that.
const spare = 8

// limits are the measures that must come back to what they were.
func limits() []limit {
	return []limit{
		{Sandboxes, 0},
		{Containers, 0},
		{Cgroups, 0},
		{KubeletMounts, 0},
		{RuntimeMounts, 0},
		{PodFolders, 0},
		{KubeletFiles, 0},
		{LogFolders, 0},
		{LogLinks, 0},
		{Addresses, 0},
		{Links, 0},
		{Chains, 0},
		{Rules, 0},
		{Elements, 0},
		{KubeletGoroutines, spare},
		{ProxyGoroutines, spare},
		{KubeletFiledes, spare},
		{ProxyFiledes, spare},
	}
}

// Exceeds returns the measures of which there is more than in the baseline, by more than
// they may differ.
func (c Counts) Exceeds(baseline Counts) []Measure {
	var more []Measure
	for _, l := range limits() {
		if c[l.measure] > baseline[l.measure]+l.tolerance {
			more = append(more, l.measure)
		}
	}
	return more
}

// OfPods returns the measures that show that a pod is left: between two rounds the node has
// none.
func (c Counts) OfPods() []Measure {
	var left []Measure
	for _, m := range []Measure{Sandboxes, Containers, PodFolders, LogFolders, LogLinks} {
		if c[m] > 0 {
			left = append(left, m)
		}
	}
	return left
}
