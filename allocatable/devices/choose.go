package devices

import (
	"fmt"
	"slices"
)

// request is what a container asks of one resource, and what there is.
type request struct {
	resource string
	count    int
	// devices are those that the plugin offers, ids their IDs in order.
	devices map[string]Device
	ids     []string
	// taken are those that somebody has, also the pod itself.
	taken map[string]int
	// reusable are those of init containers of the pod that have ended when this one
	// runs.
	reusable []string
	// nodes are the NUMA nodes to which the devices should be close; nil: any.
	nodes []int
}

// options is what is left to choose after what is given: the devices in got are the
// container's, the others come from pools, the first of them first. The plugin may be
// asked which of offered it prefers.
type options struct {
	got     []string
	pools   [][]string
	offered []string
}

// options sorts the devices that the container can have. The error says that there are
// too few.
func (r *request) options() (options, error) {
	var o options
	for _, id := range r.reusable {
		if d, ok := r.devices[id]; ok && d.Healthy && len(o.got) < r.count {
			o.got = append(o.got, id)
		}
	}
	needed := r.count - len(o.got)
	if needed == 0 {
		return o, nil
	}
	close, far, anywhere := r.free()
	if free := len(close) + len(far) + len(anywhere); free < needed {
		return o, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", r.resource, needed, free)
	}
	if needed < len(close) {
		o.pools = [][]string{close}
	} else {
		// All that are close are needed, the plugin chooses among the rest.
		o.got = append(o.got, close...)
		o.pools = [][]string{far, anywhere}
	}
	o.offered = slices.Concat(append([][]string{o.got}, o.pools...)...)
	slices.Sort(o.offered)
	return o, nil
}

// free returns the healthy devices that nobody has, by how they lie to the wanted NUMA
// nodes. Where no device says where it is, or no node is wanted, all are anywhere.
func (r *request) free() (close, far, anywhere []string) {
	placed := len(r.nodes) > 0 && hasPlaces(r.devices)
	for _, id := range r.ids {
		d := r.devices[id]
		switch {
		case !d.Healthy || r.taken[id] > 0 || slices.Contains(r.reusable, id):
		case !placed || len(d.Nodes) == 0:
			anywhere = append(anywhere, id)
		case slices.ContainsFunc(d.Nodes, func(n int) bool { return slices.Contains(r.nodes, n) }):
			close = append(close, id)
		default:
			far = append(far, id)
		}
	}
	return close, far, anywhere
}

// hasPlaces reports whether any device says where it is.
func hasPlaces(devices map[string]Device) bool {
	for _, d := range devices {
		if len(d.Nodes) > 0 {
			return true
		}
	}
	return false
}

// pick takes the devices that are missing: those that the plugin prefers first, as far
// as they are among the options.
func (o *options) pick(count int, preferred []string) []string {
	chosen := slices.Clone(o.got)
	for _, id := range preferred {
		if len(chosen) < count && !slices.Contains(chosen, id) && slices.ContainsFunc(o.pools, func(pool []string) bool { return slices.Contains(pool, id) }) {
			chosen = append(chosen, id)
		}
	}
	for _, pool := range o.pools {
		for _, id := range pool {
			if len(chosen) == count {
				break
			}
			if !slices.Contains(chosen, id) {
				chosen = append(chosen, id)
			}
		}
	}
	slices.Sort(chosen)
	return chosen
}
