package proxier

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Node is what the desired state depends on beside Services and EndpointSlices.
type Node struct {
	// Name is the name of this node: an endpoint whose nodeName equals it is local.
	Name string
	// Zone is the value of the node's label topology.kubernetes.io/zone. Empty means
	// that hints for zones are not followed.
	Zone string
}

// TrackerConfig configures a Tracker. The zero value serves Services without a
// proxy label, with no endpoint local.
type TrackerConfig struct {
	Node Node
	// ProxyName selects the Services whose label LabelServiceProxyName has this
	// value; empty selects those without the label.
	ProxyName string
	// Report is told each Problem once when it appears, not again while the object
	// keeps it. It runs within the call that found the problem and must not call
	// the Tracker. Nil drops problems.
	Report func(Problem)
}

// Tracker turns Services and EndpointSlices into ServicePorts of both families,
// incrementally: a change costs what its Service costs, whatever else there is. It
// keeps no API object, does no I/O, and is not safe for concurrent use.
type Tracker struct {
	cfg      TrackerConfig
	services map[types.NamespacedName]*service
	// slices finds the Service of an EndpointSlice by the slice's name.
	slices map[types.NamespacedName]*service
	claims claims
	dirty  []*service
	// scratch is reused between computations.
	candidates []candidate
	endpoints  []Endpoint
}

// NewTracker returns an empty Tracker.
func NewTracker(cfg TrackerConfig) *Tracker {
	if cfg.Report == nil {
		cfg.Report = func(Problem) {}
	}
	return &Tracker{
		cfg:      cfg,
		services: map[types.NamespacedName]*service{},
		slices:   map[types.NamespacedName]*service{},
		claims:   newClaims(),
	}
}

// SetService adds a Service or replaces the one of the same name. It returns
// whether that can change the desired state.
func (t *Tracker) SetService(svc *corev1.Service) bool {
	spec, problems := parseService(svc, t.cfg.ProxyName)
	name := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	s := t.services[name]
	if s == nil {
		if spec == nil {
			return false
		}
		s = t.service(name)
	}
	t.report(s.problems, problems)
	s.problems = problems
	if s.spec.equal(spec) {
		return false
	}
	t.respec(s, spec)
	return true
}

// DeleteService removes a Service and returns whether that can change the desired
// state. To remove an unknown one is not an error.
func (t *Tracker) DeleteService(name types.NamespacedName) bool {
	s := t.services[name]
	if s == nil || s.spec == nil {
		return false
	}
	s.problems = nil
	t.respec(s, nil)
	return true
}

func (t *Tracker) respec(s *service, spec *serviceSpec) {
	s.spec, s.respec = spec, true
	t.mark(s)
}

// SetEndpointSlice adds an EndpointSlice or replaces the one of the same name. It
// returns whether that can change the desired state.
func (t *Tracker) SetEndpointSlice(es *discoveryv1.EndpointSlice) bool {
	slice, problems := parseSlice(es, t.cfg.Node.Name)
	name := types.NamespacedName{Namespace: es.Namespace, Name: es.Name}
	var old namedSlice
	owner := t.slices[name]
	if owner != nil {
		old = owner.slice(es.Name)
	}
	t.report(old.problems, problems)
	if slice == nil {
		return t.DeleteEndpointSlice(name)
	}
	if slice.equal(old.endpointSlice) {
		owner.put(namedSlice{name: old.name, endpointSlice: old.endpointSlice, problems: problems})
		return false
	}
	if owner != nil && owner.name.Name != slice.service {
		t.DeleteEndpointSlice(name)
	}
	s := t.service(types.NamespacedName{Namespace: es.Namespace, Name: slice.service})
	slice.service = s.name.Name // and not a part of the API object
	if s != owner {
		old.name = strings.Clone(es.Name)
		t.slices[types.NamespacedName{Namespace: s.name.Namespace, Name: old.name}] = s
	}
	s.put(namedSlice{name: old.name, endpointSlice: slice, problems: problems})
	t.mark(s)
	return true
}

// DeleteEndpointSlice removes an EndpointSlice and returns whether that can change
// the desired state. To remove an unknown one is not an error.
func (t *Tracker) DeleteEndpointSlice(name types.NamespacedName) bool {
	s := t.slices[name]
	if s == nil {
		return false
	}
	delete(t.slices, name)
	s.slices = slices.DeleteFunc(s.slices, func(n namedSlice) bool { return n.name == name.Name })
	t.mark(s)
	return true
}

// SetZone changes the zone of the node. Services with hints for zones are computed
// anew.
func (t *Tracker) SetZone(zone string) {
	if zone == t.cfg.Node.Zone {
		return
	}
	t.cfg.Node.Zone = zone
	for _, s := range t.services {
		if slices.ContainsFunc(s.slices, func(n namedSlice) bool { return n.zoned() }) {
			t.mark(s)
		}
	}
}

// Delta computes the Services that changed since the last Delta or State and
// returns how the desired state differs from then. A caller that cannot put it
// into force goes on with State, which misses nothing.
func (t *Tracker) Delta() Delta {
	var d Delta
	// Who owns which frontend is settled before any ServicePort is built; a change
	// of owner marks the other Service, so the list grows meanwhile.
	for i := 0; i < len(t.dirty); i++ {
		if s := t.dirty[i]; s.respec {
			d.Remove = t.reclaim(s, d.Remove)
		}
	}
	for _, s := range t.dirty {
		for _, p := range s.ports {
			switch sp := t.build(p); {
			case sp.Equal(p.out):
			case sp == nil:
				d.Remove = append(d.Remove, p.key)
				p.out = nil
			default:
				d.Update = append(d.Update, sp)
				p.out = sp
			}
		}
		s.dirty = false
		if s.spec == nil && len(s.slices) == 0 {
			delete(t.services, s.name)
		}
	}
	clear(t.dirty)
	t.dirty = t.dirty[:0]
	slices.SortFunc(d.Remove, Key.Compare)
	slices.SortFunc(d.Update, func(a, b *ServicePort) int { return a.Key.Compare(b.Key) })
	return d
}

// State returns the whole desired state. The next Delta starts from it.
func (t *Tracker) State() *State {
	t.Delta()
	st := &State{}
	for _, s := range t.services {
		for _, p := range s.ports {
			if p.out != nil {
				st.Ports = append(st.Ports, p.out)
			}
		}
	}
	slices.SortFunc(st.Ports, func(a, b *ServicePort) int { return a.Key.Compare(b.Key) })
	return st
}

// service returns the record of a name, a new one if there is none.
func (t *Tracker) service(name types.NamespacedName) *service {
	s := t.services[name]
	if s == nil {
		name = types.NamespacedName{Namespace: intern(name.Namespace), Name: strings.Clone(name.Name)}
		s = &service{name: name}
		t.services[name] = s
	}
	return s
}

func (t *Tracker) mark(s *service) {
	if !s.dirty {
		s.dirty = true
		t.dirty = append(t.dirty, s)
	}
}

// report tells the problems in now that are not in before.
func (t *Tracker) report(before, now []Problem) {
	if len(now) == 0 {
		return
	}
	known := make(map[Problem]bool, len(before))
	for _, p := range before {
		known[p] = true
	}
	for _, p := range now {
		if !known[p] {
			t.cfg.Report(p)
		}
	}
}
