//go:build linux

package nftables

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// traffic connects to addr without pause until the returned function is called, which
// fails the test for each connection that the rules lost.
func traffic(t *testing.T, ns *netnstest.NS, addr, direct string) (stop func()) {
	t.Helper()
	return netnstest.Probes{From: ns, Networks: []string{"tcp"}, Virtual: addr, Direct: direct}.Start(t)
}

func TestKernelTrafficGoesOnDuringResetsAndDeltas(t *testing.T) {
	w := newWorld(t)
	serveBoth(t, w)
	three := service("web", proxier.TCP, "10.96.0.10:80", both4...)
	two := service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080"), far("10.244.2.15:8080"))
	three6 := service("web", proxier.TCP, "[fd00:96::10]:80", both6...)
	two6 := service("web", proxier.TCP, "[fd00:96::10]:80", on("[fd00:1::11]:8080", "[fd00:1::12]:8080"))
	many := manyServices(300, 2)
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, append(many, three, three6)...)
	stop4 := traffic(t, w.client, "10.96.0.10:80", "10.244.1.11:8080")
	stop6 := traffic(t, w.pod2, "[fd00:96::10]:80", "[fd00:1::11]:8080")
	for range 20 {
		update(t, b, two, two6)
		reset(t, b, append(many, two, two6)...)
		update(t, b, three, three6)
		reset(t, b, append(many, three, three6)...)
	}
	// A new process knows nothing of the generations before it.
	again := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, again, append(many, three, three6)...)
	stop4()
	stop6()
}

func TestKernelResetLeavesOneGeneration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBackend(t, w.node, Config{})
	ports := []*proxier.ServicePort{
		service("web", proxier.TCP, "10.96.0.10:80", both4...),
		service("sticky", proxier.TCP, "10.96.0.11:80", append(both4, sticky(time.Hour))...),
	}
	reset(t, b, ports...)
	want := namesIn(t, b)
	update(t, b, service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080")))
	reset(t, b, ports...)
	if diff := cmp.Diff(want, namesIn(t, b)); diff != "" {
		t.Errorf("names after another reset (-want +got):\n%s", diff)
	}
	again := newBackend(t, w.node, Config{})
	reset(t, again, ports...)
	if diff := cmp.Diff(want, namesIn(t, again)); diff != "" {
		t.Errorf("names after a reset by another process (-want +got):\n%s", diff)
	}
}

// namesIn returns the names in the tables without the number of their
// generation.
func namesIn(t *testing.T, b *Backend) []string {
	t.Helper()
	var out []string
	found, err := b.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f, n := range found {
		for _, name := range append(flatten(n.sets), flatten(n.chains)...) {
			_, name, _ = strings.Cut(name, "/")
			out = append(out, f.String()+" "+name)
		}
	}
	slices.Sort(out)
	return out
}

func TestKernelRemainsOfAFailedResetGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBackend(t, w.node, Config{})
	web := service("web", proxier.TCP, "10.96.0.10:80", both4...)
	reset(t, b, web)
	want := namesIn(t, b)
	found, err := b.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.building = found.highest() + 1
	if err := b.begin(t.Context(), b.building, found); err != nil {
		t.Fatal(err)
	}
	reset(t, b, web)
	if diff := cmp.Diff(want, namesIn(t, b)); diff != "" {
		t.Errorf("names after a reset that follows a failed one (-want +got):\n%s", diff)
	}
}

// A Reset whose last answer got lost failed for its caller, but what it built is in
// force: the next one must not take it for remains.
func TestKernelResetThatFailedAfterItsCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	b := newBackend(t, w.node, Config{})
	ports := append(manyServices(3000, 2), service("web", proxier.TCP, "10.96.0.10:80", both4...))
	reset(t, b, ports...)
	b.building = b.generations[proxier.IPv4].number
	stop := traffic(t, w.client, "10.96.0.10:80", "10.244.1.11:8080")
	reset(t, b, ports...)
	stop()
	found, err := b.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := found[proxier.IPv4]; len(n.chains) != 1 || len(n.sets) > 2 { // a set of pinned clients may be older
		t.Errorf("chains of %d and sets of %d generations are left", len(n.chains), len(n.sets))
	}
}

func TestKernelApplyNeedsAStateInForce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBackend(t, w.node, Config{})
	web := service("web", proxier.TCP, "10.96.0.10:80", both4...)
	d := proxier.Delta{Update: []*proxier.ServicePort{web}}
	if err := b.Apply(t.Context(), d); err == nil {
		t.Error("Apply before Reset succeeded")
	}
	reset(t, b)
	// Somebody deletes the table: the next delta fails, and the next reset repairs.
	other := newBackend(t, w.node, Config{})
	if err := other.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Apply(t.Context(), d); err == nil {
			t.Error("Apply to a deleted table succeeded")
		}
	}
	reset(t, b, web)
	serveBoth(t, w)
	if got := ask(t, w.client, "tcp", "10.96.0.10:80"); got.from == "timeout" {
		t.Error("no answer after the repair")
	}
}

func TestKernelApplyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBackend(t, w.node, Config{})
	reset(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := proxier.Delta{Update: []*proxier.ServicePort{service("web", proxier.TCP, "10.96.0.10:80", both4...)}}
	if err := b.Apply(ctx, d); err == nil {
		t.Error("Apply with a canceled context succeeded")
	}
	reset(t, b, d.Update...)
}

func TestKernelCleanupLeavesNothing(t *testing.T) {
	t.Parallel()
	netnstest.NeedCommand(t, "nft")
	w := newWorld(t)
	if _, err := w.node.Run("nft", "add", "table", "ip", "stranger"); err != nil {
		t.Fatal(err)
	}
	before := listing(t, w.node)
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, kitchenSink()...)
	// By another process than the one that programmed.
	other := newBackend(t, w.node, Config{})
	for range 2 {
		if err := other.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, listing(t, w.node)); diff != "" {
		t.Errorf("ruleset after Cleanup (-want +got):\n%s", diff)
	}
}

// kitchenSink is a State with every feature at once.
func kitchenSink() []*proxier.ServicePort {
	return []*proxier.ServicePort{
		service("web", proxier.TCP, "10.96.0.10:80", append(both4, at(proxier.NodePort, "", 30080),
			at(proxier.ExternalIP, "192.0.2.11", 80), at(proxier.LoadBalancer, "192.0.2.10", 80),
			sources("198.51.100.0/24", "203.0.113.7/32"))...),
		service("web", proxier.UDP, "10.96.0.10:80", both4...),
		service("web", proxier.SCTP, "10.96.0.10:80", both4...),
		service("web", proxier.TCP, "[fd00:96::10]:80", append(both6, at(proxier.LoadBalancer, "2001:db8::70", 80),
			sources("2001:db8:f::/64"))...),
		localOnly(on("10.244.1.11:8080"), far("10.244.2.15:8080")),
		service("sticky", proxier.TCP, "10.96.0.60:80", append(both4, sticky(time.Hour), at(proxier.NodePort, "", 30060))...),
		service("sticky", proxier.TCP, "[fd00:96::60]:80", append(both6, sticky(time.Hour), externalPolicyLocal,
			at(proxier.ExternalIP, "2001:db8::71", 80))...),
		service("none", proxier.TCP, "10.96.0.20:80", at(proxier.NodePort, "", 30020)),
		service("internal", proxier.TCP, "10.96.0.21:80", far("10.244.2.15:8080"), internalPolicyLocal),
	}
}

// The oldest nft that distributions ship prints everything that is programmed.
func TestKernelNftListsTheRuleset(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBackend(t, w.node, Config{Local: podNet()})
	reset(t, b, kitchenSink()...)
	got := listing(t, w.node)
	for _, want := range []string{
		"table ip nodekit-proxy {",
		"table ip6 nodekit-proxy {",
		"10.96.0.10 . tcp . 80 : 0x03000003",
		"0x03000003 : goto g1/cluster-lb-3",
		"meta priority set ip daddr . meta l4proto . th dport map @g1/services goto g1/classify",
		"meta priority set numgen random mod 3 goto g1/pick",
		"dnat ip to ip daddr . meta l4proto . th dport . meta priority map @g1/endpoints",
		"dnat ip6 to ip6 daddr . meta l4proto . th dport . meta priority map @g1/endpoints",
		"type nat hook prerouting priority dstnat; policy accept;",
		"ct state new",
		"masquerade fully-random",
		"update @g1/affinity",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("nft list ruleset has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

// At equal priority the chain that was registered last rewrites first. A switch
// of the proxy's mode relies on it: the new one is programmed before the old
// one is cleaned.
func TestKernelChainRegisteredLastRewritesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	serveBoth(t, w)
	const vip = "10.96.0.10:80"
	old := newBackend(t, w.node, Config{Table: "old-proxy"})
	reset(t, old, service("web", proxier.TCP, vip, on("10.244.1.11:8080")))
	if got := ask(t, w.client, "tcp", vip).from; got != "10.244.1.11:8080" {
		t.Fatalf("before: %s", got)
	}
	next := newBackend(t, w.node, Config{Table: "new-proxy"})
	reset(t, next, service("web", proxier.TCP, vip, on("10.244.1.12:8080")))
	if got := ask(t, w.client, "tcp", vip).from; got != "10.244.1.12:8080" {
		t.Errorf("with both tables: %s answers, want the endpoint of the newer table", got)
	}
	if err := old.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, w.client, "tcp", vip).from; got != "10.244.1.12:8080" {
		t.Errorf("with the newer table alone: %s", got)
	}
}

func TestByImportance(t *testing.T) {
	named := func(namespace, name, at string) *proxier.ServicePort {
		p := service(name, proxier.TCP, at)
		p.Key.Namespace, p.Key.Name = namespace, name
		return p
	}
	var got []string
	for _, p := range byImportance([]*proxier.ServicePort{
		named("a", "a", "10.96.0.9:80"), named("kube-system", "kube-dns", "10.96.0.10:53"),
		named("b", "b", "10.96.0.8:80"), named("default", "kubernetes", "10.96.0.1:443"),
	}) {
		got = append(got, p.Key.Name)
	}
	if diff := cmp.Diff([]string{"kubernetes", "kube-dns", "a", "b"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// What cannot be removed at once is removed later, without another Reset.
func TestKernelOldGenerationIsSwept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	told := 0
	b := newBackend(t, w.node, Config{Unswept: func(error) { told++ }})
	ports := append(manyServices(100, 2), service("sticky", proxier.TCP, "10.96.0.60:80", append(both4, sticky(time.Hour))...))
	reset(t, b, ports...)
	// A foreign rule keeps a chain of the generation in force.
	hold := func(verb string) {
		t.Helper()
		if _, err := w.node.Run("nft", verb); err != nil {
			t.Fatal(err)
		}
	}
	netnstest.NeedCommand(t, "nft")
	hold("add chain ip nodekit-proxy holder")
	hold("add rule ip nodekit-proxy holder jump g1/classify")
	reset(t, b, ports...)
	if err := b.Sweep(t.Context()); err == nil {
		t.Error("Sweep() = nil while a chain is in use")
	}
	update(t, b, grown(ports[0]))
	hold("flush chain ip nodekit-proxy holder")
	for range 2 {
		if err := b.Sweep(t.Context()); err != nil {
			t.Errorf("Sweep() = %v", err)
		}
	}
	found, err := b.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := found[proxier.IPv4]; len(n.chains) != 1 || len(n.sets) > 2 { // a set of pinned clients may be older
		t.Errorf("chains of %d and sets of %d generations are left", len(n.chains), len(n.sets))
	}
	if told != 2 {
		t.Errorf("Unswept was told %d times, want 2", told)
	}
}
