package proxiertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/proxier"
)

// Proxy is a service proxy on a World's node.
type Proxy interface {
	// Set makes the objects all that the proxy knows, and returns when they are in
	// force.
	Set(ctx context.Context, o Objects) error
}

// Inspector is a Backend that tells what is in force. Run asks those that are one after
// each change, and wants no difference.
type Inspector interface {
	// Differences returns in what the kernel differs from what it would have if s were
	// programmed from scratch, a line for each. What makes no difference for packets
	// is none.
	Differences(ctx context.Context, s *proxier.State) ([]string, error)
}

// FrontendPins is a Backend, or a Proxy, that pins a client for each frontend by itself, and
// for as long as the kernel remembers one of its connections, as IPVS does. Run asks less of
// its session affinity: that a client stays at its endpoint at the same frontend.
type FrontendPins interface {
	// PinsByFrontend reports whether that is so.
	PinsByFrontend() bool
}

// pinnedAt returns the frontends at which a client that was pinned at a node port is pinned.
func pinnedAt(p any) []proxier.FrontendKind {
	if loose, ok := p.(FrontendPins); ok && loose.PinsByFrontend() {
		return []proxier.FrontendKind{nodePort}
	}
	return []proxier.FrontendKind{clusterIP, nodePort, externalIP}
}

// Run holds a Backend against the table of packet flows: real connections between
// network namespaces, of both families and of TCP and UDP. newBackend makes a Backend
// that programs the network namespace w.NetNS(OurNode), tells pods from others by
// PodRanges, and lets node ports answer at the node's addresses.
//
// After the table come tests of what goes on meanwhile: while the Backend is started
// again, and while a thousand other Services come, change and go, no connection fails;
// UDP flows move when their endpoint goes, and others do not.
func Run(t *testing.T, newBackend func(tb testing.TB, w *World) proxier.Backend) {
	t.Helper()
	RunProxy(t, func(tb testing.TB, w *World) Proxy {
		tb.Helper()
		return newTracked(newBackend(tb, w))
	})
	t.Run("a client is free after its time", func(t *testing.T) { timesOut(t, newBackend) })
	t.Run("restart", func(t *testing.T) { restart(t, newBackend) })
	t.Run("churn", func(t *testing.T) { churn(t, newBackend) })
	t.Run("UDP flows move", func(t *testing.T) { flowsMove(t, newBackend) })
}

// RunProxy is Run for a whole proxy, such as a program that watches an API server. Its
// node is called NodeName.
func RunProxy(t *testing.T, newProxy func(tb testing.TB, w *World) Proxy) {
	t.Helper()
	w := NewWorld(t)
	p := newProxy(t, w)
	for _, s := range stories(pinnedAt(p)) {
		t.Run(s.name, func(t *testing.T) {
			for i, step := range s.steps {
				if err := p.Set(t.Context(), objectsOf(step.services)); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
				w.check(t, fmt.Sprintf("step %d", i+1), step.services, step.flows)
			}
			// Each story starts with nothing.
			if err := p.Set(t.Context(), Objects{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for seed := range uint64(2) {
		t.Run(fmt.Sprintf("random events, seed %d", seed), func(t *testing.T) { w.random(t, p, seed) })
	}
}

// randomRounds is how often the Services change at random.
const randomRounds = 8

// random changes Services at random and wants each time what the state predicts,
// computed from scratch.
func (w *World) random(t *testing.T, p Proxy, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, seed))
	var services []service
	for round := range randomRounds {
		services = randomServices(r, services)
		if err := p.Set(t.Context(), objectsOf(services)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		w.check(t, fmt.Sprintf("seed %d, round %d", seed, round), services, predictedFlows(services))
	}
}

// atOnce is how many flows are tried at a time: a dropped connection takes seconds to
// tell, and a machine that a program emulates can do only so much meanwhile.
const atOnce = 40

// check tries the flows.
func (w *World) check(t *testing.T, when string, services []service, flows []flow) {
	t.Helper()
	var wg sync.WaitGroup
	room := make(chan struct{}, atOnce)
	for _, f := range flows {
		for _, family := range families() {
			to := target(f, services, family)
			for _, protocol := range protocols() {
				f := f
				if protocol == proxier.SCTP && f.want.fate == refused {
					f.want = expect(untold)
				}
				room <- struct{}{}
				wg.Go(func() {
					defer func() { <-room }()
					if wrong := w.try(f, family, func(limit time.Duration) (outcome, error) {
						return w.connect(attempt{f.from, protocol, to}, limit)
					}); wrong != "" {
						t.Errorf("%s: %s, %s %s to %s: %s", when, f, family, protocol, to, wrong)
					}
				})
			}
		}
	}
	wg.Wait()
}

// try connects until every endpoint that is to serve has done so, and returns what is
// wrong, or nothing.
func (w *World) try(f flow, family proxier.Family, connect func(limit time.Duration) (outcome, error)) string {
	missing := slices.Clone(f.want.among)
	// Of n endpoints, the odds that one of them stays silent for 25 n connections are
	// below n·e⁻²⁵.
	for range max(1, 25*len(f.want.among)) {
		got, err := connect(patience)
		if f.want.fate != dropped && f.want.fate != untold && err == nil && got.fate == dropped {
			got, err = w.patiently(connect)
		}
		if err != nil {
			return err.Error()
		}
		if wrong := f.check(family, got); wrong != "" {
			return wrong
		}
		missing = slices.DeleteFunc(missing, func(h Host) bool { return h.Addr(family) == got.endpoint })
		if len(missing) == 0 || f.want.any {
			return ""
		}
	}
	return fmt.Sprintf("never served by %v", missing)
}

// patiently connects again, and waits longer each time, while a connection looks as if it
// were dropped: a busy machine loses time, and packets; one that a program emulates takes
// many times as long. Rules that drop do so every time.
func (w *World) patiently(connect func(limit time.Duration) (outcome, error)) (got outcome, err error) {
	for limit := 2 * patience; limit <= 16*patience; limit *= 2 {
		if got, err = connect(limit); err != nil || got.fate != dropped {
			break
		}
	}
	return got, err
}

// tracked is a Backend behind a Tracker: the objects' differences reach it as Deltas.
type tracked struct {
	backend   proxier.Backend
	tracker   *proxier.Tracker
	followers []proxier.Follower
	known     Objects
	started   bool
}

func newTracked(b proxier.Backend, followers ...proxier.Follower) *tracked {
	return &tracked{
		backend: b, followers: followers,
		tracker: proxier.NewTracker(proxier.TrackerConfig{Node: proxier.Node{Name: NodeName}}),
	}
}

// PinsByFrontend implements FrontendPins.
func (p *tracked) PinsByFrontend() bool {
	loose, ok := p.backend.(FrontendPins)
	return ok && loose.PinsByFrontend()
}

// Set implements Proxy.
func (p *tracked) Set(ctx context.Context, o Objects) error {
	p.track(o)
	d := p.tracker.Delta()
	if !p.started {
		p.started = true
		s := p.tracker.State()
		if err := p.backend.Reset(ctx, s); err != nil {
			return err
		}
		for _, f := range p.followers {
			f.Reset(s)
		}
		return nil
	}
	if d.Empty() {
		return nil
	}
	if err := p.backend.Apply(ctx, d); err != nil {
		return err
	}
	for _, f := range p.followers {
		f.Applied(d)
	}
	return p.inspect(ctx)
}

// track tells the Tracker how o differs from what it knows.
func (p *tracked) track(o Objects) {
	services, endpoints := map[string]bool{}, map[string]bool{}
	for _, svc := range o.Services {
		services[svc.Name] = true
		p.tracker.SetService(svc)
	}
	for _, es := range o.Slices {
		endpoints[es.Name] = true
		p.tracker.SetEndpointSlice(es)
	}
	for _, svc := range p.known.Services {
		if !services[svc.Name] {
			p.tracker.DeleteService(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
		}
	}
	for _, es := range p.known.Slices {
		if !endpoints[es.Name] {
			p.tracker.DeleteEndpointSlice(types.NamespacedName{Namespace: es.Namespace, Name: es.Name})
		}
	}
	p.known = o
}

// inspect wants that all Deltas together left what a fresh start leaves.
func (p *tracked) inspect(ctx context.Context) error {
	inspector, ok := p.backend.(Inspector)
	if !ok {
		return nil
	}
	lines, err := inspector.Differences(ctx, p.tracker.State())
	if err == nil && len(lines) > 0 {
		err = fmt.Errorf("the kernel differs from a fresh start:\n%s", strings.Join(lines, "\n"))
	}
	return err
}
