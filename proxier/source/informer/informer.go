package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/source"
)

// Config configures a Source. The zero value delivers the Services of the default
// proxy and their EndpointSlices.
type Config struct {
	// ProxyName selects the Services whose label proxier.LabelServiceProxyName has
	// this value; empty selects those without the label.
	ProxyName string
	// NodeName is the name of this node. Empty means that no Node is watched.
	NodeName string
	// OnNode is told the Node whenever it changes, and nil when there is none. Nil
	// means that no Node is watched.
	OnNode func(*corev1.Node)
	// OnServiceCIDRs is told the ranges of cluster IPs whenever they change, sorted.
	// Nil means that they are not watched.
	OnServiceCIDRs func([]netip.Prefix)
	// Log gets what goes wrong with the server. Nil discards it.
	Log *slog.Logger
}

// Source watches an API server.
type Source struct {
	cfg        Config
	sink       source.Sink
	reflectors []*reflector

	// required is closed when all that is not optional was delivered.
	required chan struct{}

	// mu guards what follows: how many reflectors have not delivered all once, and how
	// many of those that are not optional.
	mu      sync.Mutex
	waiting int
	needed  int
}

// New returns a Source that feeds sink from the server of config. It connects to
// nothing before Run.
func New(config *rest.Config, sink source.Sink, cfg Config) (*Source, error) {
	if config == nil || sink == nil {
		return nil, errors.New("informer: the rest.Config or the Sink is nil")
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	clients, err := newClients(config)
	if err != nil {
		return nil, fmt.Errorf("informer: %w", err)
	}
	s := &Source{cfg: cfg, sink: sink, required: make(chan struct{})}
	s.add(clients.core, s.services())
	s.add(clients.discovery, s.slices())
	if cfg.NodeName != "" && cfg.OnNode != nil {
		s.add(clients.core, s.node())
	}
	if cfg.OnServiceCIDRs != nil {
		s.add(clients.networking, s.serviceCIDRs())
	}
	return s, nil
}

func (s *Source) add(client rest.Interface, r resource) {
	made := &reflector{resource: r, client: client, log: s.cfg.Log.With("resource", r.name), canStream: true}
	s.waiting++
	if r.optional {
		made.required = s.required
	} else {
		s.needed++
	}
	made.delivered = sync.OnceFunc(func() { s.delivered(r.optional) })
	s.reflectors = append(s.reflectors, made)
}

// delivered counts the reflectors that have delivered what there was at first.
func (s *Source) delivered(optional bool) {
	s.mu.Lock()
	s.waiting--
	last := s.waiting == 0
	if !optional {
		if s.needed--; s.needed == 0 {
			close(s.required)
		}
	}
	s.mu.Unlock()
	if last {
		s.sink.Synced()
	}
}

// patience is how long optional resources may hold up all else for another reason than
// that the server refuses them; kube-proxy waits as long for the addresses of its Node.
const patience = 30 * time.Second

// goOn ends the wait for optional resources that a server which has delivered the rest
// does not deliver.
func (s *Source) goOn(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-s.required:
	}
	if !sleep(ctx, patience) {
		return
	}
	s.mu.Lock()
	waiting := s.waiting
	s.mu.Unlock()
	if waiting > 0 {
		s.cfg.Log.Warn("the Node or the ServiceCIDRs are not to be had: they are taken in when they are", "waited", patience)
	}
	for _, r := range s.reflectors {
		if r.optional {
			r.delivered()
		}
	}
}

// Run feeds the sink until ctx ends, and then returns nil. An error of the server
// is logged and tried again, for as long as it takes; the sink keeps what it has.
func (s *Source) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { s.goOn(ctx) })
	for _, r := range s.reflectors {
		wg.Go(func() { r.run(ctx) })
	}
	wg.Wait()
	return nil
}

func (s *Source) services() resource {
	selector := "!" + proxier.LabelServiceProxyName
	if s.cfg.ProxyName != "" {
		selector = proxier.LabelServiceProxyName + "=" + s.cfg.ProxyName
	}
	return resource{
		name: "services", labels: selector, fields: "spec.clusterIP!=" + corev1.ClusterIPNone,
		list: func() runtime.Object { return &corev1.ServiceList{} },
		set: func(o runtime.Object) {
			if svc, ok := o.(*corev1.Service); ok {
				s.sink.SetService(svc)
			}
		},
		remove: s.sink.DeleteService,
	}
}

func (s *Source) slices() resource {
	return resource{
		name: "endpointslices", labels: "!" + corev1.IsHeadlessService,
		list: func() runtime.Object { return &discoveryv1.EndpointSliceList{} },
		set: func(o runtime.Object) {
			if es, ok := o.(*discoveryv1.EndpointSlice); ok {
				s.sink.SetEndpointSlice(es)
			}
		},
		remove: s.sink.DeleteEndpointSlice,
	}
}

// node is the own Node. That there is none is told at the end of each list.
func (s *Source) node() resource {
	known := false
	return resource{
		name: "nodes", fields: "metadata.name=" + s.cfg.NodeName,
		list: func() runtime.Object { return &corev1.NodeList{} },
		set: func(o runtime.Object) {
			if n, ok := o.(*corev1.Node); ok {
				known = true
				s.cfg.OnNode(n)
			}
		},
		remove: func(types.NamespacedName) {
			known = false
			s.cfg.OnNode(nil)
		},
		complete: func() {
			if !known {
				s.cfg.OnNode(nil)
			}
		},
		optional: true,
	}
}

// serviceCIDRs are the ranges of cluster IPs. They are told as a whole, for the
// first time when all are known.
func (s *Source) serviceCIDRs() resource {
	var ranges ranges
	tell := func() {
		if now, changed := ranges.now(); changed {
			s.cfg.OnServiceCIDRs(now)
		}
	}
	return resource{
		name: "servicecidrs",
		list: func() runtime.Object { return &networkingv1.ServiceCIDRList{} },
		set: func(o runtime.Object) {
			if c, ok := o.(*networkingv1.ServiceCIDR); ok {
				ranges.set(c.Name, c.Spec.CIDRs)
				tell()
			}
		},
		remove: func(name types.NamespacedName) {
			ranges.remove(name.Name)
			tell()
		},
		complete: func() {
			ranges.complete = true
			tell()
		},
		optional: true,
	}
}
