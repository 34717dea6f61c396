//go:build linux

package nftables

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// A Plan that is broken off leaves what is in force to be changed as before.
func TestKernelAPlanThatFailsHarmsNothing(t *testing.T) {
	t.Parallel()
	b := newBackend(t, netnstest.New(t), Config{Local: podNet()})
	web := service("web", proxier.TCP, "10.96.0.10:80", far("10.244.2.15:8080"))
	reset(t, b, web)
	if err := b.conn.nl.SetDeadline(time.Unix(1, 0)); err != nil { // as when a context ends
		t.Fatal(err)
	}
	if _, err := b.Plan(t.Context(), &proxier.State{}); err == nil {
		t.Fatal("Plan = nil, want the deadline")
	}
	if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{web.Key}}); err != nil {
		t.Errorf("afterwards, Apply = %v", err)
	}
	if changes, err := b.Plan(t.Context(), &proxier.State{}); err != nil || len(changes) > 0 {
		t.Errorf("it would change %v, %v", changes, err)
	}
}

func TestKernelPlanTellsWhatAResetWouldChange(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	plan := func(ports ...*proxier.ServicePort) []string {
		t.Helper()
		b := newBackend(t, ns, Config{Local: podNet()}) // another process
		changes, err := b.Plan(t.Context(), &proxier.State{Ports: ports})
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, c := range changes {
			out = append(out, fmt.Sprint(c))
		}
		return out
	}
	web := service("web", proxier.TCP, "10.96.0.10:80", far("10.244.2.15:8080"))
	want := []string{
		"+ IPv4 cluster-ips { 10.96.0.10 }",
		"+ IPv4 endpoints { 10.96.0.10 . tcp . 80 . 0 : 10.244.2.15 . 8080 }",
		"+ IPv4 services { 10.96.0.10 . tcp . 80 : goto cluster-lb-1 }",
	}
	if diff := cmp.Diff(want, plan(web)); diff != "" {
		t.Errorf("before anything is programmed (-want +got):\n%s", diff)
	}
	b := newBackend(t, ns, Config{Local: podNet()})
	all := append(kitchenSink(), service("sticky-2", proxier.TCP, "10.96.7.7:80", far("10.244.2.15:8080"), sticky(time.Hour)))
	reset(t, b, all...)
	if got := plan(all...); len(got) > 0 {
		t.Errorf("nothing changed: %q", got)
	}
	reset(t, b, web)
	more := service("web", proxier.TCP, "10.96.0.10:80", far("10.244.2.15:8080"), far("10.244.2.16:8080"))
	want = []string{
		"- IPv4 services { 10.96.0.10 . tcp . 80 : goto cluster-lb-1 }",
		"+ IPv4 endpoints { 10.96.0.10 . tcp . 80 . 0 : 10.244.2.16 . 8080 }",
		"+ IPv4 services { 10.96.0.10 . tcp . 80 : goto cluster-lb-2 }",
	}
	if diff := cmp.Diff(want, plan(more)); diff != "" {
		t.Errorf("one endpoint more (-want +got):\n%s", diff)
	}
}
