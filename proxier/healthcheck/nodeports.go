package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// NodePortsConfig configures NodePorts. Healthy is required.
type NodePortsConfig struct {
	// Healthy tells whether the proxy works: a node whose proxy does not is no good
	// target, however many endpoints it has.
	Healthy func() bool
	// Families are those to listen to; empty means both. Services of others are passed
	// over: a kernel without IPv6 has no address to listen to.
	Families []proxier.Family
	// Primary and Addresses say at which addresses of the node to listen: those of
	// proxier.Network.NodeAddrs, and those in one of the prefixes. A family without
	// any, and one with a prefix of length 0, is listened to at all addresses.
	Primary   bool
	Addresses []netip.Prefix
	// Failed is told of a port that cannot be listened to, once until that changes.
	// It is tried again each five seconds. Nil means that it is logged alone.
	Failed func(service Service, port uint16, err error)
	// Log gets what Run does. Nil discards it.
	Log *slog.Logger
}

// Service names a Service.
type Service struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// NodePorts answers at the healthCheckNodePort of Services: 200 where this node has
// ready endpoints, 503 where it has none. It is a proxier.Follower and learns from
// it what to serve; the cost of a change is that of its Service. All methods are
// safe for concurrent use.
type NodePorts struct {
	cfg  NodePortsConfig
	wake chan struct{} // size 1, never closed

	// mu guards what follows.
	mu       sync.Mutex
	services map[serviceKey]*localEndpoints
	network  proxier.Network
}

// serviceKey is a Service in one family.
type serviceKey struct {
	Service
	family proxier.Family
}

// NewNodePorts returns a NodePorts that listens to nothing before Run.
func NewNodePorts(cfg NodePortsConfig) (*NodePorts, error) {
	if cfg.Healthy == nil {
		return nil, errors.New("healthcheck: NodePortsConfig.Healthy is nil")
	}
	if len(cfg.Families) == 0 {
		cfg.Families = []proxier.Family{proxier.IPv4, proxier.IPv6}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Failed == nil {
		cfg.Failed = func(Service, uint16, error) {}
	}
	return &NodePorts{cfg: cfg, wake: make(chan struct{}, 1), services: map[serviceKey]*localEndpoints{}}, nil
}

// Reset implements proxier.Follower.
func (n *NodePorts) Reset(s *proxier.State) {
	n.mu.Lock()
	defer n.mu.Unlock()
	clear(n.services)
	n.network = s.Network
	for _, p := range s.Ports {
		n.putLocked(p)
	}
	n.wakeUp()
}

// Applied implements proxier.Follower.
func (n *NodePorts) Applied(d proxier.Delta) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changed := false
	for _, k := range d.Remove {
		changed = n.dropLocked(k) || changed
	}
	for _, p := range d.Update {
		changed = n.putLocked(p) || changed
	}
	if changed {
		n.wakeUp()
	}
}

func (n *NodePorts) wakeUp() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// putLocked returns whether another port may have to be listened to.
func (n *NodePorts) putLocked(p *proxier.ServicePort) bool {
	if p.HealthCheckNodePort == 0 || !slices.Contains(n.cfg.Families, p.Key.Family) {
		return n.dropLocked(p.Key)
	}
	k := keyOf(p.Key)
	l := n.services[k]
	if l == nil {
		l = &localEndpoints{ports: map[proxier.PortName][]netip.Addr{}, uses: map[netip.Addr]int{}}
		n.services[k] = l
	}
	before := l.port
	l.put(p)
	return l.port != before
}

func (n *NodePorts) dropLocked(key proxier.Key) bool {
	k := keyOf(key)
	l := n.services[k]
	if l == nil {
		return false
	}
	l.drop(key.PortName)
	if len(l.ports) > 0 {
		return false
	}
	delete(n.services, k)
	return true
}

func keyOf(k proxier.Key) serviceKey {
	return serviceKey{Service{Namespace: k.Namespace, Name: k.Name}, k.Family}
}

// localEndpoints counts the ready endpoints of a Service on this node, each address
// once however many ports it has.
type localEndpoints struct {
	port  uint16
	ports map[proxier.PortName][]netip.Addr
	uses  map[netip.Addr]int
}

func (l *localEndpoints) put(p *proxier.ServicePort) {
	l.drop(p.Key.PortName)
	l.port = p.HealthCheckNodePort
	var addrs []netip.Addr
	if !p.LocalDraining {
		for _, e := range p.Local {
			addrs = append(addrs, e.Addr.Addr())
			l.uses[e.Addr.Addr()]++
		}
	}
	l.ports[p.Key.PortName] = addrs
}

func (l *localEndpoints) drop(name proxier.PortName) {
	for _, a := range l.ports[name] {
		if l.uses[a]--; l.uses[a] == 0 {
			delete(l.uses, a)
		}
	}
	delete(l.ports, name)
}

// answerBody is the body of an answer, field by field that of kube-proxy.
type answerBody struct {
	Service             Service `json:"service"`
	LocalEndpoints      int     `json:"localEndpoints"`
	ServiceProxyHealthy bool    `json:"serviceProxyHealthy"`
}

// handler answers for a Service, whatever the path and the method.
func (n *NodePorts) handler(k serviceKey) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n.mu.Lock()
		l, known := n.services[k]
		count := 0
		if known {
			count = len(l.uses)
		}
		n.mu.Unlock()
		healthy := n.cfg.Healthy()
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(count))
		if count == 0 || !healthy {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		// Nothing in it can fail to encode, and a client that left needs no answer.
		body, _ := json.MarshalIndent(answerBody{k.Service, count, healthy}, "", "\t")
		_, _ = w.Write(append(body, '\n'))
	})
}

// Run listens to the ports of the Services until ctx ends, and then returns nil.
func (n *NodePorts) Run(ctx context.Context) error {
	open := listeners{nodePorts: n, at: map[listener]*http.Server{}, failed: map[listener]string{}}
	defer open.close()
	for {
		var retry <-chan time.Time
		if !open.reconcile(ctx) {
			retry = time.After(bindRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.wake: // another Service, port or address
		case <-retry: // a port may have become free
		}
	}
}

// wanted returns what to listen to now.
func (n *NodePorts) wanted() map[listener]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make(map[listener]bool)
	addrs := map[proxier.Family][]netip.Addr{}
	for k, l := range n.services {
		if _, known := addrs[k.family]; !known {
			addrs[k.family] = n.addrsLocked(k.family)
		}
		for _, a := range addrs[k.family] {
			out[listener{service: k, at: netip.AddrPortFrom(a, l.port)}] = true
		}
	}
	return out
}

// addrsLocked returns the addresses to listen to in one family.
func (n *NodePorts) addrsLocked(f proxier.Family) []netip.Addr {
	var out []netip.Addr
	restricted, all := false, false
	if n.cfg.Primary {
		for _, a := range n.network.NodeAddrs {
			if proxier.FamilyOf(a) == f {
				out, restricted = append(out, a.Unmap()), true
			}
		}
	}
	for _, p := range n.cfg.Addresses {
		if proxier.FamilyOf(p.Addr()) == f {
			restricted, all = true, all || p.Bits() == 0
			out = append(out, ownAddrs(p)...)
		}
	}
	switch {
	case restricted && !all:
		return out
	case f == proxier.IPv6:
		return []netip.Addr{netip.IPv6Unspecified()}
	}
	return []netip.Addr{netip.IPv4Unspecified()}
}

// ownAddrs returns the addresses of this host's interfaces in p.
func ownAddrs(p netip.Prefix) []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, in := range all {
		own, err := netip.ParsePrefix(in.String())
		if err == nil && p.Contains(own.Addr().Unmap()) && !own.Addr().IsLinkLocalUnicast() {
			out = append(out, own.Addr().Unmap())
		}
	}
	return out
}

// listener is one Service at one address.
type listener struct {
	service serviceKey
	at      netip.AddrPort
}

// listeners are the open ones. They belong to the goroutine of Run.
type listeners struct {
	nodePorts *NodePorts
	at        map[listener]*http.Server
	failed    map[listener]string // the last error
	serving   sync.WaitGroup
}

// reconcile opens and closes what must be, and returns whether all is open.
func (o *listeners) reconcile(ctx context.Context) bool {
	want := o.nodePorts.wanted()
	for l, srv := range o.at {
		if !want[l] {
			_ = srv.Close()
			delete(o.at, l)
		}
	}
	for l := range o.failed {
		if !want[l] {
			delete(o.failed, l)
		}
	}
	all := true
	for l := range want {
		if o.at[l] != nil {
			continue
		}
		if err := o.open(ctx, l); err != nil {
			all = false
			o.fail(l, err)
			continue
		}
		delete(o.failed, l)
	}
	return all
}

func (o *listeners) fail(l listener, err error) {
	if o.failed[l] == err.Error() {
		return
	}
	o.failed[l] = err.Error()
	s := l.service.Service
	o.nodePorts.cfg.Log.Warn("cannot serve the health of a Service", "service", s.Namespace+"/"+s.Name, "err", err)
	o.nodePorts.cfg.Failed(s, l.at.Port(), err)
}

func (o *listeners) open(ctx context.Context, l listener) error {
	network := "tcp4"
	if l.service.family == proxier.IPv6 {
		network = "tcp6"
	}
	in, err := (&net.ListenConfig{}).Listen(ctx, network, l.at.String())
	if err != nil {
		return fmt.Errorf("listen to healthCheckNodePort %d: %w", l.at.Port(), err)
	}
	srv := &http.Server{
		Handler: o.nodePorts.handler(l.service), ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, IdleTimeout: time.Minute,
	}
	o.at[l] = srv
	o.serving.Go(func() {
		if err := srv.Serve(in); !errors.Is(err, http.ErrServerClosed) {
			o.nodePorts.cfg.Log.Error("serving the health of a Service ended", "port", l.at.Port(), "err", err)
		}
	})
	return nil
}

func (o *listeners) close() {
	for _, srv := range o.at {
		_ = srv.Close()
	}
	o.serving.Wait()
}
