package doctor

import (
	"net"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// dns answers on a UDP port until the test ends: with one address, or that the name is
// unknown.
func dns(t *testing.T, known bool) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-ended })
	go func() {
		defer close(ended)
		buf := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if err := m.Unpack(buf[:n]); err != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			m.Response, m.RCode, m.Additionals = true, dnsmessage.RCodeNameError, nil
			if known {
				m.RCode = dnsmessage.RCodeSuccess
			}
			if known && q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 5}, Body: &dnsmessage.AResource{A: [4]byte{10, 96, 0, 1}}}}
			}
			if data, err := m.Pack(); err == nil {
				conn.WriteTo(data, from)
			}
		}
	}()
	return conn.LocalAddr().String()
}

func TestClusterDNS(t *testing.T) {
	n := node(t, func(n *Node) { n.Kubelet.ClusterDomain = "cluster.local" })
	want(t, look(t, n, "cluster DNS"), Skipped)
	n.Kubelet.ClusterDNS = []string{dns(t, true)}
	want(t, look(t, n, "cluster DNS"), OK, "knows kubernetes.default.svc.cluster.local.: 10.96.0.1")
	n.Kubelet.ClusterDNS = []string{dns(t, false)}
	want(t, look(t, n, "cluster DNS"), Problem, "does not know kubernetes.default.svc.cluster.local")
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n.Kubelet.ClusterDNS = []string{closed.LocalAddr().String()}
	closed.Close()
	want(t, look(t, n, "cluster DNS"), Problem, "does not answer")
}

func TestServerPort(t *testing.T) {
	for server, want := range map[string]string{"10.96.0.10": "10.96.0.10:53", "fd00::10": "[fd00::10]:53", "127.0.0.1:99": "127.0.0.1:99"} {
		if got := serverPort(server); got != want {
			t.Errorf("%s is asked at %s, want %s", server, got, want)
		}
	}
}
