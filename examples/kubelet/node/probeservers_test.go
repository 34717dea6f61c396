package node_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// server is something that answers probes at a port, or does not.
type server struct {
	handler corev1.ProbeHandler
	// failure is what the event about a failure says.
	failure string
	answer  func(good bool)
}

// webServer answers with 200 or 503.
func webServer(t *testing.T) server {
	t.Helper()
	var fails atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(s.Close)
	return server{
		handler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: portOf(s.Listener)}},
		failure: "HTTP probe failed with statuscode: 503",
		answer:  func(good bool) { fails.Store(!good) },
	}
}

// healthServer says by gRPC whether it serves.
func healthServer(t *testing.T) server {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	s, service := grpc.NewServer(), health.NewServer()
	healthpb.RegisterHealthServer(s, service)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return server{
		handler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: portOf(l).IntVal}},
		failure: "NOT_SERVING",
		answer: func(good bool) {
			status := healthpb.HealthCheckResponse_NOT_SERVING
			if good {
				status = healthpb.HealthCheckResponse_SERVING
			}
			service.SetServingStatus("", status)
		},
	}
}

// portServer accepts connections or refuses them.
func portServer(t *testing.T) server {
	t.Helper()
	l := listen(t, "127.0.0.1:0")
	address, open := l.Addr().String(), true
	t.Cleanup(func() { l.Close() })
	return server{
		handler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: portOf(l)}},
		failure: "connection refused",
		answer: func(good bool) {
			switch {
			case good && !open:
				l = listen(t, address)
			case !good && open:
				l.Close()
			}
			open = good
		},
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func portOf(l net.Listener) intstr.IntOrString {
	return intstr.FromInt(l.Addr().(*net.TCPAddr).Port)
}

// TestReadinessFollowsAServer: the app answers, fails, and answers again; /pods shows
// it each time and nothing is restarted. The servers are outside of fake time, which
// stands while they are asked.
func TestReadinessFollowsAServer(t *testing.T) {
	for name, start := range map[string]func(*testing.T) server{"HTTP": webServer, "gRPC": healthServer, "TCP": portServer} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			onMachine(t, func(m *machine) {
				t := m.t
				pod := newPod("web")
				pod.Spec.HostNetwork = true // its address is the node's
				pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: s.handler, PeriodSeconds: 2, FailureThreshold: 3}
				m.manifests.write(pod)
				k := m.start(t, func(c *node.Config) { c.Host.IPs = []string{"127.0.0.1"} })
				for _, good := range []bool{true, false, true} {
					s.answer(good)
					pass(8 * time.Second)
					want := corev1.ConditionFalse
					if good {
						want = corev1.ConditionTrue
					}
					if got := k.ready("web"); got.Status != want || k.app("web").Ready != good {
						t.Errorf("while the server is good (%t) the condition is %+v and the container %+v", good, got, k.app("web"))
					}
				}
				if !m.log.has("msg=event", "pod=default/web", "container=app", "reason=Unhealthy", "Readiness probe failed: ", s.failure) {
					t.Error("the log has no event about the failure")
				}
				if got := m.Calls("StopContainer"); len(got) != 0 || k.app("web").RestartCount != 0 {
					t.Errorf("%d containers were stopped, want none: readiness restarts nothing", len(got))
				}
			})
		})
	}
}
