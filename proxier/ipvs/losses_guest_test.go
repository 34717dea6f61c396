package ipvs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

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
		{"an endpoint that an earlier process drained", drainedEarlier},
		{"an address of two ports, one goes", sharedAddress},
		{"an endpoint that gets a connection when it had none", connectionBetween},
		{"an endpoint that comes back", comesBack},
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

// drainedEarlier: a process was killed while an endpoint drained, which is ready again when the
// next one starts. Kube-proxy compares addresses alone, and finds nothing to do.
func drainedEarlier(t *testing.T, s *site, other bool) error {
	t.Helper()
	svc := service(proxier.TCP, proxier.Balance{}, 0)
	reset(t, s.backend(t, Config{}), svc)
	s.script(t, "ipvsadm -e -t 10.96.0.10:80 -r "+podAddr(0)+" -m -w 0")
	if !other {
		reset(t, s.backend(t, Config{}), svc)
	}
	return s.ask(t, vip+":80")
}

// sharedAddress: kube-proxy takes the address of a port that goes from its device, and the next
// sync puts it back for the other port.
func sharedAddress(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{})
	gone := portOf4("gone", proxier.TCP, at(proxier.ClusterIP, vip, 81), to(podAddr(1)))
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0), gone)
	if err := s.ask(t, vip+":81"); err != nil {
		t.Fatal(err)
	}
	if other {
		s.script(t, "ipvsadm -D -t 10.96.0.10:81", "ip addr del 10.96.0.10/32 dev "+DefaultDevice)
	} else if err := b.Apply(t.Context(), proxier.Delta{Remove: []proxier.Key{gone.Key}}); err != nil {
		t.Fatal(err)
	}
	return s.ask(t, vip+":80")
}

// connectionBetween: kube-proxy counts the connections of an endpoint and deletes it when there
// are none, whatever came in between.
func connectionBetween(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0))
	watch(t, b)
	c, err := s.connect(t, vip+":80")
	if err != nil {
		t.Fatal(err)
	}
	if other {
		s.script(t, "ipvsadm -a -t 10.96.0.10:80 -r "+podAddr(1)+" -m -w 1", "ipvsadm -d -t 10.96.0.10:80 -r "+podAddr(0))
		s.forgets(t)
	} else {
		apply(t, b, service(proxier.TCP, proxier.Balance{}, 1))
		eventually(t, "Watch has looked", func() bool { return s.drains(t, b) })
	}
	return c.answers(waits(other))
}

// comesBack: kube-proxy deletes an endpoint that drains and adds it anew when it is ready again.
func comesBack(t *testing.T, s *site, other bool) error {
	t.Helper()
	b := s.backend(t, Config{})
	reset(t, b, service(proxier.TCP, proxier.Balance{}, 0))
	c, err := s.connect(t, vip+":80")
	if err != nil {
		t.Fatal(err)
	}
	apply(t, b, service(proxier.TCP, proxier.Balance{}, 1))
	if other {
		s.script(t, "ipvsadm -d -t 10.96.0.10:80 -r "+podAddr(0))
		s.forgets(t)
		s.script(t, "ipvsadm -a -t 10.96.0.10:80 -r "+podAddr(0)+" -m -w 1")
	} else {
		apply(t, b, service(proxier.TCP, proxier.Balance{}, 0, 1))
	}
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
