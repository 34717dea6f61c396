package devices

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// offer is what is known of one resource.
type offer struct {
	// devices are as the plugin in charge listed them last, or the one before it.
	devices map[string]Device
	// ids are their IDs in order.
	ids []string
	// current is true while devices are those of a plugin that is connected. Else nobody
	// knows how they are.
	current bool
	// plugins are those that are connected; the last one is in charge.
	plugins []*plugin
	// stopped is when the last plugin went; zero while there is one.
	stopped time.Time
	// could is what that plugin said of itself; nil: none went since this process started.
	could *deviceapi.DevicePluginOptions
	// seen is true if a plugin has listed its devices since this process started.
	seen bool
	// gone is true if no plugin came back in time: the resource is none of the node's.
	gone bool
}

// inventory is what plugins offer, by the name of the resource. It is plain data; the
// Manager guards it.
type inventory map[string]*offer

// restore notes a resource that was there before this process.
func (inv inventory) restore(resource string, now time.Time) {
	if inv[resource] == nil {
		inv[resource] = &offer{stopped: now}
	}
}

// arrived puts a plugin in charge of its resource. One on the same socket before it has
// been replaced and is returned. What was listed stays until the new one has listed.
func (inv inventory) arrived(p *plugin) (replaced []*plugin) {
	o := inv[p.resource]
	if o == nil {
		o = &offer{}
		inv[p.resource] = o
	}
	o.plugins = slices.DeleteFunc(o.plugins, func(old *plugin) bool {
		if old.socket == p.socket {
			replaced = append(replaced, old)
		}
		return old.socket == p.socket
	})
	o.plugins = append(o.plugins, p)
	o.stopped, o.gone = time.Time{}, false
	return replaced
}

// listed takes the devices of a plugin. It returns those whose health has changed, or
// that have come or gone, and whether anything is different for others: not if another
// plugin is in charge, nor if it lists the same again.
func (inv inventory) listed(p *plugin, devices map[string]Device) (changed map[string]bool, news bool) {
	p.list = devices
	o := inv[p.resource]
	if o == nil || o.inCharge() != p {
		return nil, false
	}
	news = !o.current || !o.seen
	o.seen = true
	changed = o.replace(devices)
	return changed, news || len(changed) > 0
}

// replace takes other devices and returns those that differ.
func (o *offer) replace(devices map[string]Device) map[string]bool {
	changed := map[string]bool{}
	for id, d := range devices {
		if old, ok := o.devices[id]; !o.current || !ok || old.Healthy != d.Healthy {
			changed[id] = true
		}
	}
	for id := range o.devices {
		if _, ok := devices[id]; !ok {
			changed[id] = true
		}
	}
	o.devices, o.ids, o.current = devices, slices.Sorted(maps.Keys(devices)), true
	return changed
}

// left takes a plugin out. If it was in charge the one before it is now, with its own
// list. It reports whether anything is different for others.
func (inv inventory) left(p *plugin, now time.Time) bool {
	o := inv[p.resource]
	if o == nil || !slices.Contains(o.plugins, p) {
		return false // it was replaced
	}
	charge := o.inCharge() == p
	o.plugins = slices.DeleteFunc(o.plugins, func(other *plugin) bool { return other == p })
	next := o.inCharge()
	switch {
	case next == nil:
		o.stopped, o.could, o.current = now, p.options, false
	case charge && next.list != nil:
		o.replace(next.list)
	case charge:
		o.current = false
	}
	return charge
}

// inCharge returns the plugin that serves the resource, nil if there is none.
func (o *offer) inCharge() *plugin {
	if len(o.plugins) == 0 {
		return nil
	}
	return o.plugins[len(o.plugins)-1]
}

// healthy returns how many devices containers can be given.
func (o *offer) healthy() int {
	if !o.current {
		return 0
	}
	n := 0
	for _, d := range o.devices {
		if d.Healthy {
			n++
		}
	}
	return n
}

// expire forgets the devices of plugins that have been away for longer than grace, and
// reports whether there were any.
func (inv inventory) expire(now time.Time, grace time.Duration) bool {
	any := false
	for _, o := range inv {
		if !o.stopped.IsZero() && !o.gone && now.Sub(o.stopped) > grace {
			o.gone, o.devices, o.ids, any = true, nil, nil, true
		}
	}
	return any
}

// registered returns the resources that a next process should know of, with their
// healthy devices.
func (inv inventory) registered() map[string][]string {
	out := map[string][]string{}
	for name, o := range inv {
		if o.gone {
			continue
		}
		out[name] = []string{}
		for _, id := range o.ids {
			if o.devices[id].Healthy && o.current {
				out[name] = append(out[name], id)
			}
		}
	}
	return out
}

// fit says why devices of a resource cannot be handed out, nil if they can. Those in
// had are the container's already.
func (inv inventory) fit(resource string, had []string) error {
	o := inv[resource]
	switch {
	case o == nil || o.gone:
		return fmt.Errorf("cannot allocate unregistered device %s", resource)
	case o.healthy() == 0:
		return fmt.Errorf("no healthy devices present; cannot allocate unhealthy devices %s", resource)
	case slices.ContainsFunc(had, func(id string) bool { return !o.devices[id].Healthy }):
		return fmt.Errorf("previously allocated devices are no longer healthy; cannot allocate unhealthy devices %s", resource)
	}
	return nil
}

// affected returns the pods that have one of the devices of a resource.
func affected(l *ledger, resource string, changed map[string]bool) []types.UID {
	if len(changed) == 0 {
		return nil
	}
	return l.holders(resource, func(id string) bool { return changed[id] })
}
