//go:build linux

package proxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/conntrack"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// daySeconds is how long the cluster lives: a day with NODEKIT_LONG=1. One thing changes
// a second, which is what a cluster of a few hundred Services that are rolled out
// every ten minutes or so does.
func daySeconds() int {
	if os.Getenv("NODEKIT_LONG") == "1" {
		return 86_400
	}
	return 2_400
}

// day is a cluster that changes, and what follows it on a node.
type day struct {
	random  *rand.Rand
	tracker *proxier.Tracker
	backend *nftables.Backend
	cleaner *conntrack.Cleaner
}

const dayServices, mostEndpoints = 100, 5

// TestKernelDayOfChurnLeavesNothingBehind lets a day of changes pass without the waits
// between them. Whenever all Services are as they were at first, the kernel and the
// process hold what they held after the first tenth of the day.
func TestKernelDayOfChurnLeavesNothingBehind(t *testing.T) {
	netnstest.NeedCommand(t, "nft")
	node := netnstest.New(t)
	d := newDay(t, node)
	d.most(t)
	const parts = 10
	var first footprint
	var last footprint
	for part := range parts {
		d.pass(t, daySeconds()/parts)
		now := footprintOf(t, node)
		t.Logf("after %d%% of the day: %+v", (part+1)*100/parts, now)
		if part == 0 {
			first = now
		}
		last = now
		if now.rules != first.rules {
			t.Errorf("the ruleset has %d words after %d%% of the day, had %d after the first part", now.rules, (part+1)*100/parts, first.rules)
		}
	}
	// A search that was cut off leaves a goroutine that is about to end, which tells nobody.
	for deadline := time.Now().Add(time.Minute); last.goroutines > first.goroutines && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
		last.goroutines = runtime.NumGoroutine()
	}
	if last.files > first.files || last.goroutines > first.goroutines {
		t.Errorf("files and goroutines: %d and %d, had %d and %d", last.files, last.goroutines, first.files, first.goroutines)
	}
	if more := last.heap - first.heap; more > 1<<20 {
		t.Errorf("the heap grew by %d bytes", more)
	}
}

func newDay(t *testing.T, node *netnstest.NS) *day {
	t.Helper()
	backend, err := nftables.New(nftables.Config{NetNS: node.Path(), Families: []proxier.Family{proxier.IPv4}})
	if err != nil {
		t.Fatal(err)
	}
	cleaner, err := conntrack.New(conntrack.Config{NetNS: node.Path()})
	if err != nil {
		t.Fatal(err)
	}
	d := &day{
		random: rand.New(rand.NewPCG(1, 1)), backend: backend, cleaner: cleaner,
		tracker: proxier.NewTracker(proxier.TrackerConfig{Node: proxier.Node{Name: "node-a"}}),
	}
	for i := range dayServices {
		d.restore(i)
	}
	state := d.tracker.State()
	if err := backend.Reset(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	cleaner.Reset(state)
	t.Cleanup(func() { _ = backend.Close() })
	return d
}

// pass lets some seconds of the day pass, after which all is as it was at first. Flows are
// searched for meanwhile, and no longer: a search has files and goroutines while it lasts.
func (d *day) pass(t *testing.T, seconds int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var cleaning sync.WaitGroup
	cleaning.Go(func() {
		if err := d.cleaner.Run(ctx); err != nil {
			t.Errorf("conntrack: %v", err)
		}
	})
	defer cleaning.Wait()
	defer cancel()
	for range seconds {
		d.change()
		d.sync(t)
	}
	for i := range dayServices {
		d.restore(i)
	}
	d.sync(t)
}

func (d *day) sync(t *testing.T) {
	t.Helper()
	delta := d.tracker.Delta()
	if delta.Empty() {
		return
	}
	if err := d.backend.Apply(t.Context(), delta); err != nil {
		t.Fatal(err)
	}
	d.cleaner.Applied(delta)
}

func dayName(i int) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: fmt.Sprintf("service-%d", i)}
}

// restore makes a Service as it was at first.
func (d *day) restore(i int) {
	d.tracker.SetService(dayService(i))
	d.tracker.SetEndpointSlice(daySlice(i, i, 3))
}

// most makes every Service as large as it gets, and restores it. What that takes is
// kept for the next that needs it: chains for as many endpoints and pinned clients.
func (d *day) most(t *testing.T) {
	t.Helper()
	for i := range dayServices {
		svc := dayService(i)
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		d.tracker.SetService(svc)
		for n := range mostEndpoints {
			d.tracker.SetEndpointSlice(daySlice(i, i, n+1))
			d.sync(t)
		}
	}
	for i := range dayServices {
		d.restore(i)
	}
	d.sync(t)
}

// change is what happens in a second: mostly, endpoints of one Service are others.
func (d *day) change() {
	i := d.random.IntN(dayServices)
	switch n := d.random.IntN(20); {
	case n < 14:
		d.tracker.SetEndpointSlice(daySlice(i, d.random.IntN(1<<14), d.random.IntN(mostEndpoints+1)))
	case n < 16:
		d.tracker.DeleteService(dayName(i))
	case n < 17:
		d.tracker.DeleteEndpointSlice(dayName(i))
	case n < 18:
		svc := dayService(i)
		svc.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		d.tracker.SetService(svc)
	case n < 19:
		svc := dayService(i)
		svc.Spec.Type = corev1.ServiceTypeNodePort
		svc.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		svc.Spec.Ports[0].NodePort = int32(30000 + i)
		d.tracker.SetService(svc)
	default:
		d.tracker.SetService(dayService(i))
	}
}

func dayService(i int) *corev1.Service {
	addr := fmt.Sprintf("10.96.%d.%d", i>>8, i&255)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: dayName(i).Name},
		Spec: corev1.ServiceSpec{
			ClusterIP: addr, ClusterIPs: []string{addr}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{
				{Name: "web", Port: 80, Protocol: corev1.ProtocolTCP},
				{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP},
			},
		},
	}
}

// daySlice has n endpoints from the first on.
func daySlice(i, first, n int) *discoveryv1.EndpointSlice {
	es := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: dayName(i).Name, Labels: map[string]string{discoveryv1.LabelServiceName: dayName(i).Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("web"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
			{Name: new("dns"), Port: new(int32(5353)), Protocol: new(corev1.ProtocolUDP)},
		},
	}
	for at := first; at < first+n; at++ {
		es.Endpoints = append(es.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{fmt.Sprintf("10.244.%d.%d", at>>8&255, at&255)}, NodeName: new([]string{"node-a", "node-b"}[at%2]),
		})
	}
	return es
}

// footprint is what is held.
type footprint struct {
	rules, files, goroutines int
	heap                     int64
}

func footprintOf(t *testing.T, node *netnstest.NS) footprint {
	t.Helper()
	rules, err := node.Run("nft", "-n", "list", "ruleset")
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return footprint{
		rules: len(strings.Fields(rules)), files: len(files), goroutines: runtime.NumGoroutine(), heap: int64(m.HeapAlloc),
	}
}
