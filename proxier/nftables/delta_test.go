package nftables

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// String prints an op with a sign; a changed value has both.
func (o op) String() string {
	s := ""
	if o.del {
		s += "-" + element{in: o.in, key: o.key, value: o.old}.String()
	}
	if o.add {
		s += "+" + element{in: o.in, key: o.key, value: o.new}.String()
	}
	return s
}

func opStrings(ops []op) []string {
	var out []string
	for _, o := range ops {
		out = append(out, o.String())
	}
	return out
}

// What a change costs is what differs, in two transactions: endpoints first.
func TestChangeTouchesOnlyWhatDiffers(t *testing.T) {
	const vip = "10.96.0.10:80"
	web := func(opts ...option) *proxier.ServicePort { return service("web", proxier.TCP, vip, opts...) }
	three := web(far("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"))
	const (
		slot0   = "endpoints { 10.96.0.10 . tcp . 80 . 0 : "
		slot2   = "endpoints { 10.96.0.10 . tcp . 80 . 2 : "
		verdict = "services { 10.96.0.10 . tcp . 80 : goto "
	)
	for _, tt := range []struct {
		name        string
		old, new    *proxier.ServicePort
		early, late []string
	}{
		{name: "nothing", old: three, new: web(far("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"))},
		{
			name: "an endpoint is replaced", old: three, new: web(far("10.0.0.2:80", "10.0.0.3:80", "10.0.0.9:80")),
			early: []string{"-" + slot0 + "10.0.0.1 . 80 }+" + slot0 + "10.0.0.9 . 80 }"},
		},
		{
			name: "the first endpoint goes: the last survivor takes its slot at once",
			old:  three, new: web(far("10.0.0.2:80", "10.0.0.3:80")),
			early: []string{"-" + slot0 + "10.0.0.1 . 80 }+" + slot0 + "10.0.0.3 . 80 }"},
			late:  []string{"-" + verdict + "lb-3 }+" + verdict + "lb-2 }", "-" + slot2 + "10.0.0.3 . 80 }"},
		},
		{
			name: "an endpoint comes",
			old:  web(far("10.0.0.2:80", "10.0.0.3:80")), new: web(far("10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80")),
			early: []string{"+" + slot2 + "10.0.0.1 . 80 }"},
			late:  []string{"-" + verdict + "lb-2 }+" + verdict + "lb-3 }"},
		},
		{
			name: "the last endpoint goes", old: web(far("10.0.0.1:80")), new: web(),
			late: []string{
				"-" + verdict + "lb-1 }", "-" + slot0 + "10.0.0.1 . 80 }",
				"+no-endpoints { 10.96.0.10 . tcp . 80 : goto reject }",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refs := make(counts)
			old := entryOf(t, tt.old)
			before := &batch{}
			before.change(proxier.IPv4, view{}, render(old, masqueradeNothing), refs)
			b := &batch{}
			b.change(proxier.IPv4, render(old, masqueradeNothing), render(old.next(tt.new), masqueradeNothing), refs)
			early, late := b.phases()
			if diff := cmp.Diff(tt.early, opStrings(early)); diff != "" {
				t.Errorf("endpoints (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.late, opStrings(late)); diff != "" {
				t.Errorf("the rest (-want +got):\n%s", diff)
			}
		})
	}
}

// A phase may be spread over several transactions, with connections in between.
func TestOrderInsideAPhase(t *testing.T) {
	guarded := func(name, vip string, opts ...option) *entry {
		return entryOf(t, service(name, proxier.TCP, vip, append(opts,
			at(proxier.LoadBalancer, "192.0.2.10", 80), sources("198.51.100.0/24"))...))
	}
	refs := make(counts)
	out := func(phase []op) []string {
		var names []string
		for _, o := range phase {
			names = append(names, o.String()[:1]+o.in.String())
		}
		return names
	}
	come := &batch{}
	come.change(proxier.IPv4, view{}, render(guarded("a", "10.96.0.1:80", on("10.0.0.1:80")), masqueradeNothing), refs)
	early, late := come.phases()
	if diff := cmp.Diff([]string{"+hairpin", "+endpoints", "+endpoints"}, out(early)); diff != "" {
		t.Errorf("endpoints of a new Service (-want +got):\n%s", diff)
	}
	want := []string{"+firewall-vips", "+firewall-sources", "+services", "+services", "+cluster-ips"}
	if diff := cmp.Diff(want, out(late)); diff != "" {
		t.Errorf("the rest of a new Service (-want +got):\n%s", diff)
	}
	gone := &batch{}
	gone.change(proxier.IPv4, render(guarded("a", "10.96.0.1:80", on("10.0.0.1:80")), masqueradeNothing), view{}, refs)
	_, late = gone.phases()
	if first, last := late[0], late[len(late)-1]; first.in != firewallSources || last.in != firewallVIPs {
		t.Errorf("a Service that goes ends as %q, want its address closed to the end", out(late))
	}
}

func TestSharedElementsGoWithTheirLastUser(t *testing.T) {
	one := render(entryOf(t, service("one", proxier.TCP, "10.96.0.1:80", on("10.0.0.1:80"))), masqueradeNothing)
	two := render(entryOf(t, service("two", proxier.TCP, "10.96.0.1:81", on("10.0.0.1:80"))), masqueradeNothing)
	refs := make(counts)
	shared := func(old, new view) []string {
		b := &batch{}
		b.change(proxier.IPv4, old, new, refs)
		var out []string
		for _, o := range b.merge() {
			if o.in == hairpin || o.in == clusterIPs {
				out = append(out, o.String())
			}
		}
		return out
	}
	const ip, pod = "cluster-ips { 10.96.0.1 }", "hairpin { 10.0.0.1 . 10.0.0.1 . tcp . 80 }"
	for _, step := range []struct {
		name     string
		old, new view
		want     []string
	}{
		{"first user", view{}, one, []string{"+" + ip, "+" + pod}},
		{"second user", view{}, two, nil},
		{"first user goes", one, view{}, nil},
		{"last user goes", two, view{}, []string{"-" + ip, "-" + pod}},
	} {
		if diff := cmp.Diff(step.want, shared(step.old, step.new)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
	if len(refs) != 0 {
		t.Errorf("references left: %v", refs)
	}
}

// A frontend that moves between ServicePorts is one change, whichever of the
// two comes first.
func TestFrontendMovesBetweenServicePorts(t *testing.T) {
	give := render(entryOf(t, service("a", proxier.TCP, "10.96.0.1:80", far("10.0.0.1:80"))), masqueradeNothing)
	take := render(entryOf(t, service("b", proxier.TCP, "10.96.0.1:80", far("10.0.0.2:80"))), masqueradeNothing)
	const slot = "endpoints { 10.96.0.1 . tcp . 80 . 0 : "
	want := []string{"-" + slot + "10.0.0.1 . 80 }+" + slot + "10.0.0.2 . 80 }"}
	for _, order := range []string{"giver first", "taker first"} {
		t.Run(order, func(t *testing.T) {
			refs := make(counts)
			(&batch{}).change(proxier.IPv4, view{}, give, refs)
			b := &batch{}
			if order == "giver first" {
				b.change(proxier.IPv4, give, view{}, refs)
				b.change(proxier.IPv4, view{}, take, refs)
			} else {
				b.change(proxier.IPv4, view{}, take, refs)
				b.change(proxier.IPv4, give, view{}, refs)
			}
			early, late := b.phases()
			if diff := cmp.Diff(want, opStrings(append(early, late...))); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
