package proxier

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Feed is the way of one source into a Proxier. Objects are read during the call
// and not kept. Two feeds must not deliver an object of the same kind and name.
type Feed struct {
	p    *Proxier
	name string
}

// Feed returns a new feed; the name is for logs and Status. A feed made before Run
// holds back the first round until it is synced.
func (p *Proxier) Feed(name string) *Feed {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &Feed{p: p, name: name}
	p.waiting = append(p.waiting, f)
	return f
}

// SetService adds or replaces a Service.
func (f *Feed) SetService(svc *corev1.Service) {
	f.p.change(Changes{Services: 1}, func(t *Tracker) bool { return t.SetService(svc) })
}

// DeleteService removes a Service. To remove an unknown one is not an error.
func (f *Feed) DeleteService(name types.NamespacedName) {
	f.p.change(Changes{Services: 1}, func(t *Tracker) bool { return t.DeleteService(name) })
}

// SetEndpointSlice adds or replaces an EndpointSlice.
func (f *Feed) SetEndpointSlice(es *discoveryv1.EndpointSlice) {
	f.p.change(Changes{EndpointSlices: 1}, func(t *Tracker) bool {
		changed := t.SetEndpointSlice(es)
		if changed {
			f.p.triggeredLocked(es)
		}
		return changed
	})
}

// DeleteEndpointSlice removes an EndpointSlice. To remove an unknown one is not an
// error.
func (f *Feed) DeleteEndpointSlice(name types.NamespacedName) {
	f.p.change(Changes{EndpointSlices: 1}, func(t *Tracker) bool { return t.DeleteEndpointSlice(name) })
}

// Synced says that the feed has delivered everything it knew at its start. Further
// calls do nothing.
func (f *Feed) Synced() {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	f.p.waiting = slices.DeleteFunc(f.p.waiting, func(o *Feed) bool { return o == f })
	f.p.wakeUp()
}

// maxTriggers bounds what is kept for a statistic while nothing can be programmed.
const maxTriggers = 1 << 12

// triggeredLocked notes when the cause of a change was seen, if the slice tells and
// the time is after the start.
func (p *Proxier) triggeredLocked(es *discoveryv1.EndpointSlice) {
	at, err := time.Parse(time.RFC3339Nano, es.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err == nil && p.running && at.After(p.begun) && len(p.triggers) < maxTriggers {
		p.triggers = append(p.triggers, at)
	}
}

// change counts what do has changed, if it has.
func (p *Proxier) change(what Changes, do func(*Tracker) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if do(p.tracker) {
		p.pending = p.pending.plus(what)
		p.queueLocked()
	}
}
