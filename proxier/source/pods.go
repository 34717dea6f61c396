package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Defaults of PodsConfig.
const (
	DefaultInterval = 500 * time.Millisecond
	DefaultTimeout  = 10 * time.Second
)

// PodsConfig configures a Pods. The zero value works.
type PodsConfig struct {
	// NodeName is the node of the pods, under which their endpoints are local.
	NodeName string
	// Interval is the pause between two questions to the kubelet. 0 means
	// DefaultInterval.
	Interval time.Duration
	// Timeout bounds one question. 0 means DefaultTimeout.
	Timeout time.Duration
	// Log gets when the kubelet goes and comes back. Nil discards it.
	Log *slog.Logger
}

// Pods is a Sink that passes on what it gets and adds, for each Service with a
// selector, EndpointSlices of the pods that the kubelet of this node reports.
// Services without one keep those that they are given. While the kubelet does not
// answer, the endpoints stay as they are; before it has answered once, the next
// sink is not synced.
type Pods struct {
	kubelet lister
	next    Sink
	cfg     PodsConfig

	// mu guards what follows, and keeps the calls of next in order.
	mu       sync.Mutex
	pods     []pod
	services map[types.NamespacedName]*selected
	upstream bool // whoever feeds this sink is synced
	answered bool // the kubelet has answered once
}

// lister tells the pods of a kubelet, and whether that is news.
type lister interface {
	pods(ctx context.Context) (pods []pod, changed bool, err error)
	close()
}

// selected is a Service with a selector and what was built for it.
type selected struct {
	svc    *corev1.Service
	slices map[string]*discoveryv1.EndpointSlice // by name
}

var _ Sink = (*Pods)(nil)

// NewPods returns a Pods that asks at url, "unix:///path/of/socket" or
// "http://host:port", for "/pods", and delivers into next. It asks nothing before
// Run.
func NewPods(url string, next Sink, cfg PodsConfig) (*Pods, error) {
	if next == nil {
		return nil, errors.New("source: Pods needs a Sink")
	}
	if cfg.Interval < 0 || cfg.Timeout < 0 {
		return nil, fmt.Errorf("source: Interval %v and Timeout %v must not be negative", cfg.Interval, cfg.Timeout)
	}
	k, err := newKubelet(url)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	return newPods(k, next, cfg), nil
}

func newPods(k lister, next Sink, cfg PodsConfig) *Pods {
	if cfg.Interval == 0 {
		cfg.Interval = DefaultInterval
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = DefaultTimeout
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Pods{kubelet: k, next: next, cfg: cfg, services: map[types.NamespacedName]*selected{}}
}

// Run asks the kubelet each Interval until ctx ends, and then returns nil. It does
// not slow down while there is no answer: a question costs next to nothing, and a
// kubelet that has come back shows at once.
func (p *Pods) Run(ctx context.Context) error {
	defer p.kubelet.close()
	for away := false; ; {
		err := p.poll(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			p.cfg.Log.Warn("kubelet does not tell its pods; endpoints stay as they are", "err", err)
		case err == nil && away:
			p.cfg.Log.Info("kubelet tells its pods again")
		}
		away = err != nil
		t := time.NewTimer(p.cfg.Interval)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
	}
}

// poll asks once and delivers what has changed.
func (p *Pods) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	pods, changed, err := p.kubelet.pods(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	remember(pods, p.pods)
	if changed && !reflect.DeepEqual(p.pods, pods) {
		p.pods = pods
		for _, s := range p.services {
			p.buildLocked(s)
		}
	}
	p.answered = true
	p.syncLocked()
	return nil
}

// SetService passes svc on, and builds its EndpointSlices if it has a selector.
func (p *Pods) SetService(svc *corev1.Service) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
	p.next.SetService(svc)
	if !selects(svc) {
		p.forgetLocked(name)
		return
	}
	s := p.services[name]
	if s == nil {
		s = &selected{slices: map[string]*discoveryv1.EndpointSlice{}}
		p.services[name] = s
	}
	s.svc = svc
	p.buildLocked(s)
}

// DeleteService passes the deletion on, with that of the slices built for it.
func (p *Pods) DeleteService(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next.DeleteService(name)
	p.forgetLocked(name)
}

// SetEndpointSlice passes slice on.
func (p *Pods) SetEndpointSlice(slice *discoveryv1.EndpointSlice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next.SetEndpointSlice(slice)
}

// DeleteEndpointSlice passes the deletion on.
func (p *Pods) DeleteEndpointSlice(name types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next.DeleteEndpointSlice(name)
}

// Synced says that all Services known at the start were set. The next sink is
// synced when the kubelet has answered as well.
func (p *Pods) Synced() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.upstream = true
	p.syncLocked()
}

func (p *Pods) syncLocked() {
	if p.upstream && p.answered {
		p.next.Synced()
	}
}

// buildLocked delivers the slices of s that differ from those before.
func (p *Pods) buildLocked(s *selected) {
	now := map[string]*discoveryv1.EndpointSlice{}
	for _, es := range buildSlices(s.svc, p.pods, p.cfg.NodeName) {
		now[es.Name] = es
		if !reflect.DeepEqual(s.slices[es.Name], es) {
			p.next.SetEndpointSlice(es)
		}
	}
	for name := range s.slices {
		if now[name] == nil {
			p.next.DeleteEndpointSlice(types.NamespacedName{Namespace: s.svc.Namespace, Name: name})
		}
	}
	s.slices = now
}

func (p *Pods) forgetLocked(name types.NamespacedName) {
	s := p.services[name]
	if s == nil {
		return
	}
	delete(p.services, name)
	for slice := range s.slices {
		p.next.DeleteEndpointSlice(types.NamespacedName{Namespace: name.Namespace, Name: slice})
	}
}
