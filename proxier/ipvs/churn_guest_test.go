package ipvs

import (
	"context"
	"fmt"
	"testing"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// churnRounds is how often the Services change while they are asked.
const churnRounds = 60

// TestInGuestChurn changes a Service that is asked all the time, by TCP and UDP: its endpoints come,
// go and come back, another port at its address comes and goes, others around it change, and now
// and then the process is killed. No connection fails.
func TestInGuestChurn(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	all := churned(0)
	reset(t, b, all...)
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel() }()
	watched := make(chan error, 1)
	run := func() { watched <- b.Watch(ctx, func() {}) }
	go run()
	stop := s.probe(t)
	for round := range churnRounds {
		before := all
		all = churned(round)
		if round%15 == 14 {
			cancel()
			if err := <-watched; err != nil {
				t.Fatal(err)
			}
			_ = b.Close()
			b = s.backend(t, Config{})
			ctx, cancel = context.WithCancel(t.Context())
			reset(t, b, all...)
			go run()
			continue
		}
		if err := b.Apply(t.Context(), proxier.Delta{Update: all, Remove: gone(before, all)}); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	cancel()
	if err := <-watched; err != nil {
		t.Error(err)
	}
}

// TestInGuestChurnAsKubeProxyDoesIt makes those of these changes by which kube-proxy loses something, by its
// steps: endpoints of UDP that go. The same probes tell of losses.
func TestInGuestChurnAsKubeProxyDoesIt(t *testing.T) {
	inGuest(t)
	s := newSite(t)
	b := s.backend(t, Config{})
	reset(t, b, churned(0)...)
	eventually(t, "something is lost", func() bool {
		c := &complaints{TB: t}
		stop := s.probe(c)
		for range 3 {
			// An endpoint is deleted when it is not ready, and added when it is.
			for i := range 2 {
				s.script(t, "ipvsadm -d -u 10.96.0.10:80 -r "+podAddr(i), "ipvsadm -a -u 10.96.0.10:80 -r "+podAddr(i)+" -m -w 1")
			}
		}
		stop()
		if len(c.lines) > 0 {
			t.Log(c.lines)
		}
		return len(c.lines) > 0
	})
}

// probe asks the Service of churned until the function it returns is called, and a pod directly.
func (s *site) probe(tb testing.TB) (stop func()) {
	tb.Helper()
	return netnstest.Probes{From: s.client, Networks: []string{"tcp", "udp", "tcp"}, Virtual: vip + ":80", Direct: podAddr(2)}.Start(tb)
}

// complaints is a testing.TB that collects errors.
type complaints struct {
	testing.TB
	lines []string
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

// churned are the Services of a round. The one that is asked has endpoints 0 and 1 in turns, at
// least one of them; 2 is asked directly.
func churned(round int) []*proxier.ServicePort {
	pods := [][]int{{0, 1}, {1}, {0, 1}, {0}}[round%4]
	all := []*proxier.ServicePort{service(proxier.TCP, proxier.Balance{}, pods...), service(proxier.UDP, proxier.Balance{}, pods...)}
	if round%3 == 0 {
		all = append(all, portOf4("other", proxier.TCP, at(proxier.ClusterIP, vip, 81), to(podAddr(2))))
	}
	for i := range 40 {
		if (i+round)%5 == 0 {
			continue // gone for a round
		}
		all = append(all, portOf4(fmt.Sprintf("svc-%02d", i), proxier.TCP,
			at(proxier.ClusterIP, fmt.Sprintf("10.96.1.%d", i), 80), to(podAddr((i+round)%3), fmt.Sprintf("10.2.9.%d:8080", round))))
	}
	return all
}

// gone returns the keys of ServicePorts of before that now does not have.
func gone(before, now []*proxier.ServicePort) []proxier.Key {
	there := map[proxier.Key]bool{}
	for _, p := range now {
		there[p.Key] = true
	}
	var keys []proxier.Key
	for _, p := range before {
		if !there[p.Key] {
			keys = append(keys, p.Key)
		}
	}
	return keys
}
