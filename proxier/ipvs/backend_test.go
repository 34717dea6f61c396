package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Short ways to write ServicePorts.
func portOf4(name string, proto proxier.Protocol, change ...func(*proxier.ServicePort)) *proxier.ServicePort {
	p := &proxier.ServicePort{
		Key:          proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: name, Protocol: proto}, Family: proxier.IPv4},
		HasEndpoints: true,
	}
	for _, c := range change {
		c(p)
	}
	p.HasEndpoints = len(p.Cluster)+len(p.Local) > 0
	return p
}

func at(kind proxier.FrontendKind, addr string, port uint16) func(*proxier.ServicePort) {
	return func(p *proxier.ServicePort) {
		f := proxier.Frontend{Kind: kind, Port: port}
		if addr != "" {
			f.Addr = netip.MustParseAddr(addr)
		}
		p.Frontends = append(p.Frontends, f)
	}
}

func endpoints(addrs ...string) []proxier.Endpoint {
	var out []proxier.Endpoint
	for _, a := range addrs {
		local := strings.HasSuffix(a, "(here)")
		out = append(out, proxier.Endpoint{Addr: netip.MustParseAddrPort(strings.TrimSuffix(a, "(here)")), Local: local})
	}
	return out
}

func to(addrs ...string) func(*proxier.ServicePort) {
	return func(p *proxier.ServicePort) { p.Cluster = endpoints(addrs...) }
}

func web(addrs ...string) *proxier.ServicePort {
	return portOf4("web", proxier.TCP, at(proxier.ClusterIP, "10.96.0.110", 80), to(addrs...))
}

func keyOf(proto proxier.Protocol, at string) serverKey {
	a := netip.MustParseAddrPort(at)
	return serverKey{family: proxier.FamilyOf(a.Addr()), proto: proto, at: a}
}

func stateOf(ports ...*proxier.ServicePort) *proxier.State {
	slices.SortFunc(ports, func(a, b *proxier.ServicePort) int { return a.Key.Compare(b.Key) })
	return &proxier.State{Ports: ports, Network: proxier.Network{NodeAddrs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}}
}

func reset(t *testing.T, b *Backend, ports ...*proxier.ServicePort) {
	t.Helper()
	if err := b.Reset(t.Context(), stateOf(ports...)); err != nil {
		t.Fatal(err)
	}
}

func apply(t *testing.T, b *Backend, ports ...*proxier.ServicePort) {
	t.Helper()
	if err := b.Apply(t.Context(), proxier.Delta{Update: ports}); err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, what string, got, want []string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// preloaded is a kernel that a process was killed over: one real server of two drains, and
// so does one that is no endpoint any more.
func preloaded(t *testing.T, connectionsOfStranger uint64) *fakeKernel {
	t.Helper()
	k := newFakeKernel(t)
	vs := keyOf(proxier.TCP, "10.96.0.110:80")
	k.device.state = deviceState{exists: true, bound: []netip.Addr{vs.at.Addr()}, elsewhere: []netip.Addr{netip.MustParseAddr("10.0.0.2")}}
	v := &fakeServer{settings: settings{scheduler: "rr"}, targets: map[netip.AddrPort]*foundTarget{}}
	for addr, weight := range map[string]uint16{"10.244.1.21:8080": 0, "10.244.1.22:8080": 1, "10.244.1.99:8080": 0} {
		a := netip.MustParseAddrPort(addr)
		v.targets[a] = &foundTarget{target: target{at: a, weight: weight}, masquerades: true}
	}
	v.targets[netip.MustParseAddrPort("10.244.1.99:8080")].connections = connectionsOfStranger
	k.virtual[vs] = v
	return k
}

func TestWhatAnEarlierProcessDrainedServesAgain(t *testing.T) {
	endpoints := []string{"10.244.1.21:8080", "10.244.1.22:8080"}
	k := preloaded(t, 0)
	reset(t, k.backend(Config{}), web(endpoints...))
	want(t, "operations", k.taken(), []string{
		"change real server 10.244.1.21:8080 weight 1 of TCP 10.96.0.110:80",
		"delete real server 10.244.1.99:8080 of TCP 10.96.0.110:80",
	})
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1"})

	// One with connections goes on draining.
	k = preloaded(t, 3)
	b := k.backend(Config{})
	reset(t, b, web(endpoints...))
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1 10.244.1.99:8080=0"})
	if left, err := b.drain(t.Context()); !left || err != nil {
		t.Errorf("drain with connections = %v, %v, want something left", left, err)
	}
	k.connections(keyOf(proxier.TCP, "10.96.0.110:80"), "10.244.1.99:8080", 0)
	if left, err := b.drain(t.Context()); left || err != nil {
		t.Errorf("drain without connections = %v, %v, want nothing left", left, err)
	}
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1"})
}

// An endpoint that is not wanted serves until a Reset is that far: who comes meanwhile is not cut.
func TestResetKeepsConnectionsThatBeginMeanwhile(t *testing.T) {
	k := preloaded(t, 0)
	vs, gone := keyOf(proxier.TCP, "10.96.0.110:80"), netip.MustParseAddrPort("10.244.1.99:8080")
	k.virtual[vs].targets[gone].weight = 1
	k.fail = func(o op) error {
		if o.kind == setTarget && o.target.at == gone {
			k.virtual[vs].targets[gone].connections++
		}
		return nil
	}
	b := k.backend(Config{})
	reset(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1 10.244.1.99:8080=0"})
	k.connections(vs, gone.String(), 0)
	if left, err := b.drain(t.Context()); left || err != nil {
		t.Errorf("drain without connections = %v, %v, want nothing left", left, err)
	}
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1"})
}

func TestEndpointThatComesBackStopsDraining(t *testing.T) {
	k := newFakeKernel(t)
	b := k.backend(Config{})
	reset(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
	apply(t, b, web("10.244.1.22:8080"))
	want(t, "gone", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=0 10.244.1.22:8080=1"})
	apply(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
	want(t, "back", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1"})
	if left, err := b.drain(t.Context()); left || err != nil {
		t.Errorf("drain = %v, %v, want nothing left", left, err)
	}
	want(t, "after a look", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.21:8080=1 10.244.1.22:8080=1"})
}

func TestWhoDrains(t *testing.T) {
	for _, tt := range []struct {
		name      string
		proto     proxier.Protocol
		scheduler string
		want      string
	}{
		{"TCP", proxier.TCP, "", "rr 10.244.1.21:8080=0 10.244.1.22:8080=1"},
		{"SCTP", proxier.SCTP, "", "rr 10.244.1.21:8080=0 10.244.1.22:8080=1"},
		{"UDP, for answers on their way", proxier.UDP, "", "rr 10.244.1.21:8080=0 10.244.1.22:8080=1"},
		{"a scheduler that insists", proxier.TCP, "dh", "dh 10.244.1.22:8080=1"},
		{"a scheduler that hashes", proxier.TCP, "sh", "sh 10.244.1.21:8080=0 10.244.1.22:8080=1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newFakeKernel(t)
			b := k.backend(Config{Scheduler: tt.scheduler})
			svc := func(addrs ...string) *proxier.ServicePort {
				return portOf4("web", tt.proto, at(proxier.ClusterIP, "10.96.0.110", 80), to(addrs...))
			}
			reset(t, b, svc("10.244.1.21:8080", "10.244.1.22:8080"))
			apply(t, b, svc("10.244.1.22:8080"))
			want(t, "virtual servers", k.lines(), []string{tt.proto.String() + " 10.96.0.110:80 " + tt.want})
		})
	}
}

func TestDrainingEndsAfterItsTime(t *testing.T) {
	k := newFakeKernel(t)
	b := k.backend(Config{DrainTimeout: -1})
	reset(t, b, web("10.244.1.21:8080", "10.244.1.22:8080"))
	apply(t, b, web("10.244.1.22:8080"))
	k.connections(keyOf(proxier.TCP, "10.96.0.110:80"), "10.244.1.21:8080", 5)
	if left, err := b.drain(t.Context()); left || err != nil {
		t.Errorf("drain = %v, %v, want nothing left", left, err)
	}
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.110:80 rr 10.244.1.22:8080=1"})
}

// An address stays on the device without a gap while a Service or a port has it.
func TestAddressOfTwoServicesStaysUntilTheLastGoes(t *testing.T) {
	k := newFakeKernel(t)
	k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	b := k.backend(Config{})
	one := portOf4("s1", proxier.TCP, at(proxier.ClusterIP, "10.96.0.131", 8001), at(proxier.ExternalIP, "192.0.2.130", 8001), to("10.244.1.25:8080"))
	two := portOf4("s2", proxier.TCP, at(proxier.ClusterIP, "10.96.0.132", 8002), at(proxier.ExternalIP, "192.0.2.130", 8002),
		at(proxier.ExternalIP, "10.0.0.2", 8002), to("10.244.1.26:8080"))
	first := portOf4("s3", proxier.TCP, at(proxier.ClusterIP, "10.96.0.133", 80), to("10.244.1.27:8080"))
	second := portOf4("s3", proxier.TCP, at(proxier.ClusterIP, "10.96.0.133", 443), to("10.244.1.27:8443"))
	first.Key.Port, second.Key.Port = "a", "b"
	reset(t, b, one, two, first, second)
	k.device.log = nil

	for _, step := range []struct {
		gone *proxier.ServicePort
		log  []string
	}{
		{one, []string{"-10.96.0.131"}},
		{second, nil},
		{two, []string{"-10.96.0.132", "-192.0.2.130"}},
	} {
		if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{step.gone.Key}}); err != nil {
			t.Fatal(err)
		}
		want(t, "changes of addresses after "+step.gone.Key.Name+":"+step.gone.Key.Port, k.device.log, step.log)
		k.device.log = nil
	}
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.133:80 rr 10.244.1.27:8080=1"})
}

func TestChangeCostsItsServicePort(t *testing.T) {
	k := newFakeKernel(t)
	b := k.backend(Config{})
	var ports []*proxier.ServicePort
	for i := range 200 {
		ports = append(ports, portOf4(fmt.Sprintf("s%d", i), proxier.TCP,
			at(proxier.ClusterIP, fmt.Sprintf("10.96.1.%d", i), 80), to("10.244.1.21:8080", "10.244.1.22:8080")))
	}
	reset(t, b, ports...)
	k.taken()
	k.device.log, k.rules.changed = nil, 0
	i := slices.IndexFunc(ports, func(p *proxier.ServicePort) bool { return p.Key.Name == "s17" })
	changed := *ports[i]
	changed.Cluster = endpoints("10.244.1.22:8080", "10.244.1.23:8080")
	apply(t, b, &changed)
	want(t, "operations", k.taken(), []string{
		"add real server 10.244.1.23:8080 weight 1 of TCP 10.96.1.17:80",
		"change real server 10.244.1.21:8080 weight 0 of TCP 10.96.1.17:80",
	})
	if k.rules.changed != 0 || len(k.device.log) != 0 {
		t.Errorf("%d elements and the addresses %v changed, want none", k.rules.changed, k.device.log)
	}
	apply(t, b, &changed)
	want(t, "operations for the same again", k.taken(), []string{})
}

func TestNodePortsAnswerAtAddressesOfTheNode(t *testing.T) {
	addrs := []netip.Addr{}
	for _, a := range []string{"10.0.0.2", "127.0.0.1", "169.254.1.1", "172.16.0.1", "::1", "fe80::1", "fd00::2"} {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	for _, tt := range []struct {
		name string
		cfg  Config
		want []string
	}{
		{"all", Config{}, []string{"TCP 10.0.0.2:30080", "TCP 172.16.0.1:30080"}},
		{"primary", Config{NodePortPrimary: true}, []string{"TCP 10.0.0.2:30080"}},
		{"some", Config{NodePortAddresses: []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}}, []string{"TCP 172.16.0.1:30080"}},
		{
			"none of this family named",
			Config{NodePortAddresses: []netip.Prefix{netip.MustParsePrefix("fd00::/64")}},
			[]string{"TCP 10.0.0.2:30080", "TCP 172.16.0.1:30080"},
		},
		{"nowhere", Config{NodePortAddresses: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}}, []string{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newFakeKernel(t)
			k.device.state.elsewhere = addrs
			reset(t, k.backend(tt.cfg), portOf4("np", proxier.TCP, at(proxier.NodePort, "", 30080), to("10.244.1.21:8080")))
			got := []string{}
			for _, l := range k.lines() {
				name, _, _ := strings.Cut(l, " rr")
				got = append(got, name)
			}
			want(t, "virtual servers", got, tt.want)
			if len(k.device.state.bound) > 0 {
				t.Errorf("addresses of the node are bound: %v", k.device.state.bound)
			}
		})
	}
}

// An external address may be the node's, and its port another Service's node port.
func TestFrontOfTwoGoesToTheOneWithAnAddress(t *testing.T) {
	k := newFakeKernel(t)
	k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	b := k.backend(Config{})
	port := portOf4("a", proxier.TCP, at(proxier.NodePort, "", 30080), to("10.244.1.21:8080"))
	addr := portOf4("b", proxier.TCP, at(proxier.ExternalIP, "10.0.0.2", 30080), to("10.244.1.22:8080"))
	reset(t, b, port)
	want(t, "one", k.lines(), []string{"TCP 10.0.0.2:30080 rr 10.244.1.21:8080=1"})
	apply(t, b, addr)
	want(t, "both", k.lines(), []string{"TCP 10.0.0.2:30080 rr 10.244.1.21:8080=0 10.244.1.22:8080=1"})
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{addr.Key}}); err != nil {
		t.Fatal(err)
	}
	want(t, "the other", k.lines(), []string{"TCP 10.0.0.2:30080 rr 10.244.1.21:8080=1 10.244.1.22:8080=0"})
}

func TestSchedulersAndWeights(t *testing.T) {
	k := newFakeKernel(t)
	k.schedulers = []string{"rr", "lc", "fo", "sh"}
	var problems []string
	b := k.backend(Config{Scheduler: "lc", Problem: func(p Problem) { problems = append(problems, p.Reason) }})
	with := func(name, ip string, balance proxier.Balance, more ...func(*proxier.ServicePort)) *proxier.ServicePort {
		return portOf4(name, proxier.TCP, append(more, at(proxier.ClusterIP, ip, 80), to("10.244.1.21:80(here)", "10.244.2.1:80"),
			func(p *proxier.ServicePort) { p.Balance = balance })...)
	}
	reset(t, b,
		with("a", "10.96.0.1", proxier.Balance{}),
		with("b", "10.96.0.2", proxier.Balance{Scheduler: "fo", LocalWeight: 10}),
		with("c", "10.96.0.3", proxier.Balance{Scheduler: "wrr"}),
		with("d", "10.96.0.4", proxier.Balance{Scheduler: "rr"}, func(p *proxier.ServicePort) { p.Affinity = 3 * time.Hour }),
		with("e", "10.96.0.5", proxier.Balance{Scheduler: "wrr"}),
	)
	want(t, "virtual servers", k.lines(), []string{
		"TCP 10.96.0.1:80 lc 10.244.1.21:80=1 10.244.2.1:80=1",
		"TCP 10.96.0.2:80 fo 10.244.1.21:80=10 10.244.2.1:80=1",
		"TCP 10.96.0.3:80 lc 10.244.1.21:80=1 10.244.2.1:80=1",
		"TCP 10.96.0.4:80 rr persistent 10800 10.244.1.21:80=1 10.244.2.1:80=1",
		"TCP 10.96.0.5:80 lc 10.244.1.21:80=1 10.244.2.1:80=1",
	})
	missing := "the kernel has no scheduler wrr: load the module ip_vs_wrr; lc is used"
	want(t, "problems", problems, []string{missing, missing})
	// Another scheduler and another affinity change what is there.
	k.taken()
	apply(t, b, with("a", "10.96.0.1", proxier.Balance{Scheduler: "sh"}))
	want(t, "operations", k.taken(), []string{"change virtual server TCP 10.96.0.1:80 scheduler sh flags 0x8 timeout 0"})
}

func TestMissingDefaultSchedulerIsSaid(t *testing.T) {
	k := newFakeKernel(t)
	err := k.backend(Config{Scheduler: "twos"}).Reset(t.Context(), stateOf())
	if err == nil || !strings.Contains(err.Error(), "load the module ip_vs_twos") {
		t.Errorf("Reset = %v, want the module to load", err)
	}
}

func TestPolicyLocalHasAShortcut(t *testing.T) {
	k := newFakeKernel(t)
	k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	b := k.backend(Config{})
	policy := func(addrs, local []proxier.Endpoint, affinity time.Duration) *proxier.ServicePort {
		return portOf4("lb", proxier.TCP, at(proxier.ClusterIP, "10.96.0.1", 80), at(proxier.NodePort, "", 30080), func(p *proxier.ServicePort) {
			p.ExternalLocal, p.Cluster, p.Local, p.Affinity = true, addrs, local, affinity
		})
	}
	all := endpoints("10.244.1.21:80(here)", "10.244.2.1:80")
	reset(t, b, policy(all, all[:1], 0))
	want(t, "virtual servers", k.lines(), []string{
		"TCP 10.0.0.2:30080 rr 10.244.1.21:80=1",
		"TCP 10.96.0.1:80 rr 10.244.1.21:80=1 10.244.2.1:80=1",
		"mark 0x4e4b0001 IPv4 rr 10.244.1.21:80=1 10.244.2.1:80=1",
	})
	// Without local endpoints others are dropped; with affinity the shortcut hashes.
	apply(t, b, policy(all[1:], nil, time.Hour))
	want(t, "virtual servers", k.lines(), []string{
		"TCP 10.0.0.2:30080 rr persistent 3600 10.244.1.21:80=0",
		"TCP 10.96.0.1:80 rr persistent 3600 10.244.1.21:80=0 10.244.2.1:80=1",
		"mark 0x4e4b0001 IPv4 sh 10.244.1.21:80=0 10.244.2.1:80=1",
	})
	e := element{in: dropped, family: proxier.IPv4, proto: proxier.TCP, at: netip.MustParseAddrPort("10.0.0.2:30080")}
	if !k.rules.elements[e] {
		t.Errorf("the table lacks %s", e)
	}
	// A process that starts takes the same mark.
	fresh := k.backend(Config{})
	k.taken()
	reset(t, fresh, policy(all[1:], nil, time.Hour))
	for _, o := range k.taken() {
		if strings.Contains(o, "virtual server") || strings.Contains(o, "mark") && !strings.Contains(o, "delete real server") {
			t.Errorf("a start does: %s", o)
		}
	}
	if err := fresh.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{policy(nil, nil, 0).Key}}); err != nil {
		t.Fatal(err)
	}
	want(t, "virtual servers in the end", k.lines(), []string{})
	if n := len(k.rules.elements); n != 0 {
		t.Errorf("%d elements are left", n)
	}
}

// TestMarksOutliveTheProcess: they were given out in the order in which Services came, and
// some have gone since.
func TestMarksOutliveTheProcess(t *testing.T) {
	k := newFakeKernel(t)
	k.device.state.elsewhere = []netip.Addr{netip.MustParseAddr("10.0.0.2")}
	policy := func(name, endpoint string, fronts ...func(*proxier.ServicePort)) *proxier.ServicePort {
		return portOf4(name, proxier.TCP, append(fronts, func(p *proxier.ServicePort) {
			p.ExternalLocal, p.Cluster, p.Local = true, endpoints(endpoint), endpoints(endpoint)
		})...)
	}
	gone := policy("gone", "10.244.1.20:80(here)", at(proxier.ClusterIP, "10.96.0.1", 80), at(proxier.NodePort, "", 30080))
	last := policy("z", "10.244.1.21:80(here)", at(proxier.ClusterIP, "10.96.0.2", 80), at(proxier.NodePort, "", 30081))
	first := policy("a", "10.244.1.22:80(here)", at(proxier.ClusterIP, "10.96.0.3", 80), at(proxier.ExternalIP, "192.0.2.1", 80))
	b := k.backend(Config{})
	reset(t, b, gone)
	apply(t, b, last)
	apply(t, b, first)
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{gone.Key}}); err != nil {
		t.Fatal(err)
	}
	before := k.lines()
	k.taken()
	reset(t, k.backend(Config{}), last, first)
	want(t, "virtual servers of the next process", k.lines(), before)
	for _, o := range k.taken() {
		if strings.Contains(o, "mark") {
			t.Errorf("a start does: %s", o)
		}
	}
}

// Until a virtual server with a mark is gone, it sends to endpoints of who had the mark.
func TestMarkIsNotGivenAgainAtOnce(t *testing.T) {
	lb := func(name, addr, endpoint string) *proxier.ServicePort {
		return portOf4(name, proxier.TCP, at(proxier.ExternalIP, addr, 80), func(p *proxier.ServicePort) {
			p.ExternalLocal, p.Cluster, p.Local = true, endpoints(endpoint), endpoints(endpoint)
		})
	}
	old, fresh := lb("old", "192.0.2.1", "10.244.1.21:80(here)"), lb("fresh", "192.0.2.2", "10.244.1.22:80(here)")
	for name, change := range map[string]func(k *fakeKernel, b *Backend) error{
		"by Apply": func(_ *fakeKernel, b *Backend) error {
			return b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{old.Key}, Update: []*proxier.ServicePort{fresh}})
		},
		"by Reset":           func(_ *fakeKernel, b *Backend) error { return b.Reset(t.Context(), stateOf(fresh)) },
		"by another process": func(k *fakeKernel, _ *Backend) error { return k.backend(Config{}).Reset(t.Context(), stateOf(fresh)) },
	} {
		t.Run(name, func(t *testing.T) {
			k := newFakeKernel(t)
			b := k.backend(Config{})
			reset(t, b, old)
			if err := change(k, b); err != nil {
				t.Fatal(err)
			}
			want(t, "virtual servers", k.lines(), []string{"TCP 192.0.2.2:80 rr 10.244.1.22:80=1", "mark 0x4e4b0002 IPv4 rr 10.244.1.22:80=1"})
		})
	}
}

// Where no mark is left, nobody is sent to endpoints of other nodes, and clients keep their address.
func TestPolicyLocalWithoutAMarkKeepsTheSource(t *testing.T) {
	k := noded(t)
	var problems []string
	b := k.backend(Config{Problem: func(p Problem) { problems = append(problems, p.Field) }})
	reset(t, b)
	for mark := b.state.marks.high + 1; mark < b.state.marks.probe(); mark++ {
		b.state.marks.taken[mark] = true
	}
	apply(t, b, portOf4("lb", proxier.TCP, at(proxier.LoadBalancer, "192.0.2.2", 80), at(proxier.NodePort, "", 30080), func(p *proxier.ServicePort) {
		p.ExternalLocal, p.Cluster, p.Local = true, endpoints("10.244.1.21:80(here)", "10.244.2.1:80"), endpoints("10.244.1.21:80(here)")
	}))
	want(t, "problems", problems, []string{"ExternalLocal"})
	want(t, "virtual servers", k.lines(), []string{"TCP 10.0.0.2:30080 rr 10.244.1.21:80=1", "TCP 192.0.2.2:80 rr 10.244.1.21:80=1"})
	var got []string
	for e := range k.rules.elements {
		if e.in != hairpins {
			got = append(got, e.String())
		}
	}
	slices.Sort(got)
	want(t, "elements", got, []string{
		"local-only { 10.0.0.2 . tcp . 30080 }", "local-only { 192.0.2.2 . tcp . 80 }", "owned { 10.0.0.2 . tcp . 30080 }", "service-ips { 192.0.2.2 }",
	})
	p := b.state.programs[0]
	if slices.ContainsFunc(p.prerouting(), func(r rule) bool { return looksUp(r, localOnly) }) {
		t.Error("connections of others are masqueraded")
	}
	if !slices.ContainsFunc(p.input(), func(r rule) bool { return looksUp(r, localOnly) }) {
		t.Error("connections of others are refused")
	}
}

func TestFailureOfOneDoesNotKeepOthers(t *testing.T) {
	k := newFakeKernel(t)
	b := k.backend(Config{})
	k.fail = func(o op) error {
		if o.kind == addTarget && o.server.at.Addr() == netip.MustParseAddr("10.96.0.1") {
			return unix.EINVAL
		}
		return nil
	}
	bad := portOf4("bad", proxier.TCP, at(proxier.ClusterIP, "10.96.0.1", 80), to("10.244.1.21:80"))
	good := portOf4("good", proxier.TCP, at(proxier.ClusterIP, "10.96.0.2", 80), to("10.244.1.22:80"))
	err := b.Reset(t.Context(), stateOf(bad, good))
	if err == nil || !strings.Contains(err.Error(), "add real server 10.244.1.21:80") {
		t.Errorf("Reset = %v, want what failed", err)
	}
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.1:80 rr", "TCP 10.96.0.2:80 rr 10.244.1.22:80=1"})
	if err := b.Apply(t.Context(), proxier.Delta{Update: []*proxier.ServicePort{good}}); err == nil {
		t.Error("Apply after an error succeeds")
	}
	k.fail = nil
	reset(t, b, bad, good)
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.1:80 rr 10.244.1.21:80=1", "TCP 10.96.0.2:80 rr 10.244.1.22:80=1"})
}

func TestStrangersInAListAreReported(t *testing.T) {
	k := newFakeKernel(t)
	var problems []string
	b := k.backend(Config{Families: []proxier.Family{proxier.IPv4}, Problem: func(p Problem) { problems = append(problems, p.Field) }})
	six := portOf4("six", proxier.TCP, at(proxier.ClusterIP, "fd00::1", 80))
	six.Key.Family = proxier.IPv6
	odd := portOf4("odd", proxier.TCP, at(proxier.ClusterIP, "10.96.0.1", 80), at(proxier.ExternalIP, "fd00::1", 80), at(proxier.NodePort, "", 0),
		to("10.244.1.22:80", "[fd00::5]:80", "10.244.1.21:80", "10.244.1.21:80"), func(p *proxier.ServicePort) {
			p.SourceRanges = []netip.Prefix{netip.MustParsePrefix("fd00::/64")}
			p.Frontends = append(p.Frontends, proxier.Frontend{Kind: proxier.LoadBalancer, Addr: netip.MustParseAddr("192.0.2.1"), Port: 80})
		})
	proto := portOf4("proto", 1, at(proxier.ClusterIP, "10.96.0.2", 80))
	reset(t, b, six, odd, proto)
	slices.Sort(problems)
	want(t, "problems", problems, []string{
		"Cluster[1]", "Frontends[1]", "Frontends[2]", "Key.Family", "Key.Protocol", "SourceRanges", "SourceRanges[0]",
	})
	want(t, "virtual servers", k.lines(), []string{"TCP 10.96.0.1:80 rr 10.244.1.21:80=1 10.244.1.22:80=1"})
}
