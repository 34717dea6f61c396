package devices

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Resources returns what the node has of devices, and what of it pods can have: the
// healthy ones. A resource whose plugin has gone stays, with nothing of it in the end, so
// that the status of the Node says so.
func (m *Manager) Resources() (capacity, allocatable corev1.ResourceList) {
	capacity, allocatable = corev1.ResourceList{}, corev1.ResourceList{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, o := range m.offers {
		capacity[corev1.ResourceName(name)] = quantity(len(o.devices))
		allocatable[corev1.ResourceName(name)] = quantity(o.healthy())
	}
	return capacity, allocatable
}

func quantity(n int) resource.Quantity {
	return *resource.NewQuantity(int64(n), resource.DecimalSI)
}

// Health returns how the devices of a container are, for the status of its pod: unknown
// while their plugin is away, unhealthy also if the plugin does not list them any more.
func (m *Manager) Health(uid types.UID, container string) []corev1.ResourceStatus {
	m.mu.Lock()
	defer m.mu.Unlock()
	shares := m.book.shares[uid][container]
	var out []corev1.ResourceStatus
	for _, name := range slices.Sorted(maps.Keys(shares)) {
		st := corev1.ResourceStatus{Name: corev1.ResourceName(name)}
		for _, id := range shares[name].ids() {
			st.Resources = append(st.Resources, corev1.ResourceHealth{ResourceID: corev1.ResourceID(id), Health: m.offers[name].health(id)})
		}
		out = append(out, st)
	}
	return out
}

// health returns how a device is.
func (o *offer) health(id string) corev1.ResourceHealthStatus {
	switch {
	case o == nil || !o.current:
		return corev1.ResourceHealthStatusUnknown
	case o.devices[id].Healthy:
		return corev1.ResourceHealthStatusHealthy
	}
	return corev1.ResourceHealthStatusUnhealthy
}

// Assigned returns the devices that a container has, by the names of their resources.
// Where they are is as it was when they were handed out; how they are, as now.
func (m *Manager) Assigned(uid types.UID, container string) map[string][]Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]Device{}
	for name, s := range m.book.shares[uid][container] {
		list := devicesOf(s.places)
		for i := range list {
			list[i].Healthy = m.offers[name].health(list[i].ID) == corev1.ResourceHealthStatusHealthy
		}
		out[name] = list
	}
	return out
}

// Allocatable returns all healthy devices, by the names of their resources, whoever has
// them.
func (m *Manager) Allocatable() map[string][]Device {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string][]Device{}
	for name, o := range m.offers {
		if !o.current {
			continue
		}
		for _, id := range o.ids {
			if d := o.devices[id]; d.Healthy {
				out[name] = append(out[name], d)
			}
		}
	}
	return out
}

// Knows reports whether a resource comes from plugins, also if none is there now.
func (m *Manager) Knows(resource corev1.ResourceName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.offers[string(resource)] != nil
}
