package probes_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/probes"
)

// Probes that name a host reach what the node lets them reach, whatever the name resolves
// to; those of the pod itself are not asked about.
func TestReach(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(secure.Close)
	port := func(s *httptest.Server) intstr.IntOrString {
		return intstr.FromInt32(int32(netip.MustParseAddrPort(s.Listener.Addr().String()).Port()))
	}
	deny := func(netip.Addr) error { return errors.New("the node's settings") }
	allow := func(ip netip.Addr) error {
		if ip != netip.MustParseAddr("127.0.0.1") {
			return errors.New("not 127.0.0.1")
		}
		return nil
	}
	tests := []struct {
		name    string
		reach   probes.Reach
		handler corev1.ProbeHandler
		want    probes.Outcome
	}{
		{"HTTP to an address", deny, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: port(web)}}, probes.Failure},
		{"HTTP to a name", deny, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "localhost", Port: port(web)}}, probes.Failure},
		{"HTTPS", deny, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: port(secure), Scheme: "HTTPS"}}, probes.Failure},
		{"TCP to an address", deny, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "127.0.0.1", Port: port(web)}}, probes.Failure},
		{"TCP to a name", deny, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "localhost", Port: port(web)}}, probes.Failure},
		{"an address of IPv4 as one of IPv6", allow, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: "::ffff:127.0.0.1", Port: port(web)}}, probes.Success},
		{"an address that is allowed", allow, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: port(web)}}, probes.Success},
		{"the pod itself by HTTP", deny, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: port(web)}}, probes.Success},
		{"the pod itself by TCP", deny, corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: port(web)}}, probes.Success},
		{"nothing is decided", nil, corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: port(web)}}, probes.Success},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := probes.FromSpec(probes.Liveness, &corev1.Probe{ProbeHandler: tt.handler}, probes.Target{Host: "127.0.0.1", Clients: probes.Clients{Reach: tt.reach}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := spec.Prober.Probe(t.Context())
			if err != nil || got.Outcome != tt.want {
				t.Errorf("%+v, %v; want %s", got, err, tt.want)
			}
			if tt.want == probes.Failure && !strings.Contains(got.Message, "probes may not connect to this address: the node's settings") {
				t.Errorf("the message is %q, which does not say why", got.Message)
			}
		})
	}
}
