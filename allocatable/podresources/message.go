package podresources

import (
	"maps"
	"slices"

	resourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
)

// containerDevices has an entry for each device and each NUMA node that it is close to, as
// clients of the kubelet expect it, in the order of resources and devices.
func containerDevices(byResource map[string][]devices.Device) []*resourcesapi.ContainerDevices {
	var out []*resourcesapi.ContainerDevices
	for _, name := range slices.Sorted(maps.Keys(byResource)) {
		for _, d := range byResource[name] {
			if len(d.Nodes) == 0 {
				out = append(out, &resourcesapi.ContainerDevices{ResourceName: name, DeviceIds: []string{d.ID}})
			}
			for _, n := range d.Nodes {
				out = append(out, &resourcesapi.ContainerDevices{ResourceName: name, DeviceIds: []string{d.ID}, Topology: topology([]int{n})})
			}
		}
	}
	return out
}

func containerMemory(blocks []Block) []*resourcesapi.ContainerMemory {
	var out []*resourcesapi.ContainerMemory
	for _, b := range blocks {
		out = append(out, &resourcesapi.ContainerMemory{MemoryType: string(b.Type), Size: b.Size, Topology: topology(b.Nodes)})
	}
	return out
}

func topology(nodes []int) *resourcesapi.TopologyInfo {
	out := &resourcesapi.TopologyInfo{}
	for _, n := range nodes {
		out.Nodes = append(out.Nodes, &resourcesapi.NUMANode{ID: int64(n)})
	}
	return out
}

func numbers(list []int) []int64 {
	var out []int64
	for _, n := range list {
		out = append(out, int64(n))
	}
	return out
}
