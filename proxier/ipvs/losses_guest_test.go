package ipvs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// TestInGuestWhatOthersLose makes a change twice: by the Backend, and by the steps in which
// kube-proxy makes it, which cost a connection.
func TestInGuestWhatOthersLose(t *testing.T) {
	inGuest(t)
	for _, tt := range []struct {
		name string
		// change returns what became of a connection around a change: that of the Backend, or
		// with other that of the steps.
		change func(t *testing.T, s *site, other bool) error
	}{
		{"an endpoint whose weight somebody else changed", changedWeight},
		{"an endpoint of SCTP with an association", association},
		{"an endpoint that gets a connection when it had none", connectionBetween},
		{"an endpoint of UDP with an answer on its way", answerOnItsWay},
		{"an endpoint that the hash of a client names", hashNames},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.change(t, newSite(t), false); err != nil {
				t.Errorf("lost: %v", err)
			}
			err := tt.change(t, newSite(t), true)
			if err == nil {
				t.Error("the other steps lose nothing: this shows nothing")
			}
			t.Logf("the other steps lose: %v", err)
		})
	}
}

// ask opens a connection and has it answer.
func (s *site) ask(t *testing.T, to string) error {
	t.Helper()
	c, err := s.connect(t, to)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.works()
}

// changedWeight: kube-proxy puts weights right when it starts, and looks at none afterwards.
func changedWeight(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{CheckInterval: 100 * time.Millisecond})
	svc := service(proxier.TCP, proxier.Balance{}, 0)
	reset(t, b, svc)
	s.script(t, "ipvsadm -e -t 10.96.0.10:80 -r "+podAddr(0)+" -m -w 0")
	if !other {
		select {
		case <-watch(t, b):
		case <-time.After(patience):
			t.Fatal("nobody notices the weight")
		}
		reset(t, b, svc)
	}
	return s.ask(t, vip+":80")
}

// association: kube-proxy deletes endpoints of SCTP at once, as it does those of UDP.
func association(t *testing.T, s *site, other bool) error {
	t.Helper()
	if !netnstest.HasSCTP() {
		t.Skip("the kernel has no SCTP")
	}
	b := s.backend(t, Config{})
	reset(t, b, service(proxier.SCTP, proxier.Balance{}, 0))
	watch(t, b)
	c, err := s.connectBy(t, proxier.SCTP, vip+":80")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, b, service(proxier.SCTP, proxier.Balance{}, 1))
	if other {
		s.script(t, "ipvsadm -d --sctp-service 10.96.0.10:80 -r "+podAddr(0))
		s.forgets(t)
	}
	return c.answers(waits(other))
}

// meddling is an IPVS that something happens to before the weight of a real server changes.
type meddling struct {
	virtualServers
	before func()
}

func (m *meddling) do(ctx context.Context, ops []op) ([]error, error) {
	if before := m.before; before != nil && slices.ContainsFunc(ops, func(o op) bool { return o.kind == setTarget }) {
		m.before = nil
		before()
	}
	return m.virtualServers.do(ctx, ops)
}

// connectionBetween: kube-proxy counts the connections of an endpoint and deletes it when there
// are none, whatever came in between.
func connectionBetween(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0))
	var c *talk
	connect := func() {
		var err error
		if c, err = s.connect(t, vip+":80"); err != nil {
			t.Fatal(err)
		}
	}
	if other {
		s.script(t, "ipvsadm -a -t 10.96.0.10:80 -r "+podAddr(1)+" -m -w 1")
		// It is looked at here, and has no connection.
		for c == nil || c.with != podAddr(0) {
			connect()
		}
		s.script(t, "ipvsadm -d -t 10.96.0.10:80 -r "+podAddr(0))
		s.forgets(t)
		return c.answers(waits(other))
	}
	// A Reset looks at all real servers before it changes one.
	_ = b.Close()
	open := b.open
	b.open = func() (*kernel, error) {
		k, err := open()
		if err == nil {
			k.ipvs = &meddling{k.ipvs, connect}
		}
		return k, err
	}
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 1))
	watch(t, b)
	eventually(t, "Watch has looked", func() bool { return s.drains(t, b) })
	return c.answers(waits(other))
}

// answerOnItsWay: kube-proxy deletes endpoints of UDP at once, and the kernel forgets their flows.
func answerOnItsWay(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{})
	u, err := s.pods[0].ListenPacket("udp", "10.2.0.2:9090")
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	slow := func(pods ...string) *proxier.ServicePort {
		return portOf4("slow", proxier.UDP, at(proxier.ClusterIP, vip, 90), to(pods...))
	}
	reset(t, b, slow("10.2.0.2:9090"))
	watch(t, b)
	c, err := s.client.Dial("udp", vip+":90", patience)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	buf := make([]byte, 64)
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	if err := u.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	_, from, err := u.ReadFrom(buf)
	if err != nil {
		t.Fatal(err)
	}
	// Watch takes the endpoint away a second later, at the soonest.
	b.mu.Lock()
	err = b.applyLocked(t.Context(), proxier.Delta{Update: []*proxier.ServicePort{slow("10.2.1.2:9090")}})
	if other {
		s.script(t, "ipvsadm -d -u 10.96.0.10:90 -r 10.2.0.2:9090")
		s.forgets(t)
	}
	_, sent := u.WriteTo([]byte("!"), from)
	b.mu.Unlock()
	if err := errors.Join(err, sent, c.SetReadDeadline(time.Now().Add(waits(other)))); err != nil {
		t.Fatal(err)
	}
	_, err = c.Read(buf)
	return err
}

// hashNames: where the hash of a client names an endpoint that drains, kube-proxy has the kernel
// refuse it.
func hashNames(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{Scheduler: "sh"})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0, 1))
	if other {
		s.script(t, "ipvsadm -E -t 10.96.0.10:80 -s sh")
	}
	c, err := s.connect(t, vip+":80")
	if err != nil {
		t.Fatal(err)
	}
	pod := 0
	if c.with == podAddr(1) {
		pod = 1
	}
	if other {
		s.script(t, fmt.Sprintf("ipvsadm -e -t 10.96.0.10:80 -r %s -m -w 0", podAddr(pod)))
	} else {
		apply(t, b, service(proxier.TCP, proxier.Balance{}, 1-pod))
	}
	return s.ask(t, vip+":80")
}

// waits is how long an answer is waited for: one that is expected to be lost, not for long.
func waits(lost bool) time.Duration {
	if lost {
		return 5 * time.Second
	}
	return patience
}

// forgets waits until the kernel has forgotten connections to the first pod.
func (s *site) forgets(t *testing.T) {
	t.Helper()
	eventually(t, "the kernel forgets connections", func() bool {
		out, err := s.node.Run("sh", "-c", "grep -c 0A020002 /proc/net/ip_vs_conn || true")
		return err == nil && strings.TrimSpace(out) == "0"
	})
}

// drains reports that the first pod has weight 0 and was looked at by Watch, which left it.
func (s *site) drains(t *testing.T, b *Backend) bool {
	t.Helper()
	left, err := b.drain(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, there := s.realServers(t, keyOf(proxier.TCP, vip+":80"))[podAddr(0)]
	return left && there && w == 0
}
