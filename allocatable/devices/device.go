package devices

import (
	"maps"
	"slices"

	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Device is a device as its plugin reports it.
type Device struct {
	// ID is unique among the devices of one resource.
	ID string
	// Healthy is true if containers can use it.
	Healthy bool
	// Nodes are the NUMA nodes it is close to, in ascending order; empty: it does not
	// matter.
	Nodes []int
}

// withoutNode is the NUMA node under which the checkpoint of a kubelet has devices that
// are close to none.
const withoutNode = -1

// listedDevices turns a list of the API into devices by their IDs. Of two with the same
// ID the last counts; those without are left out.
func listedDevices(list []*deviceapi.Device) map[string]Device {
	out := make(map[string]Device, len(list))
	for _, d := range list {
		device := Device{ID: d.GetID(), Healthy: d.GetHealth() == deviceapi.Healthy}
		for _, n := range d.GetTopology().GetNodes() {
			device.Nodes = append(device.Nodes, int(n.GetID()))
		}
		slices.Sort(device.Nodes)
		device.Nodes = slices.Compact(device.Nodes)
		if device.ID != "" {
			out[device.ID] = device
		}
	}
	return out
}

// placed groups the IDs of devices by NUMA node, as the checkpoint has them. A device
// that is close to several is under each.
func placed(ids []string, devices map[string]Device) map[int64][]string {
	out := map[int64][]string{}
	for _, id := range ids {
		nodes := devices[id].Nodes
		if len(nodes) == 0 {
			nodes = []int{withoutNode}
		}
		for _, n := range nodes {
			out[int64(n)] = append(out[int64(n)], id)
		}
	}
	return out
}

// devicesOf is the opposite of placed: the devices of a group, by ID in order.
func devicesOf(places map[int64][]string) []Device {
	byID := map[string]*Device{}
	for _, node := range slices.Sorted(maps.Keys(places)) {
		for _, id := range places[node] {
			if byID[id] == nil {
				byID[id] = &Device{ID: id}
			}
			if d := byID[id]; node != withoutNode && !slices.Contains(d.Nodes, int(node)) {
				d.Nodes = append(d.Nodes, int(node))
			}
		}
	}
	out := make([]Device, 0, len(byID))
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		out = append(out, *byID[id])
	}
	return out
}
