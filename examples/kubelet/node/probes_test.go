package node_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// runs returns a probe each 5 s that runs a command.
func runs(command string) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{command}}},
		PeriodSeconds: 5, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 2,
	}
}

// failing answers that the named commands fail and all others do well.
func failing(commands ...string) func(runtimetest.Exec) runtimetest.ExecResult {
	return func(e runtimetest.Exec) runtimetest.ExecResult {
		if slices.Contains(commands, e.Cmd[0]) {
			return runtimetest.ExecResult{Code: 1, Stdout: e.Cmd[0] + " says no"}
		}
		return runtimetest.ExecResult{}
	}
}

// inFirstRun is an answer in the first run of a container, and success in later ones.
func inFirstRun(answer func(runtimetest.Exec) runtimetest.ExecResult) func(runtimetest.Exec) runtimetest.ExecResult {
	return func(e runtimetest.Exec) runtimetest.ExecResult {
		if e.Container.Config.GetMetadata().GetAttempt() > 0 {
			return runtimetest.ExecResult{}
		}
		return answer(e)
	}
}

// ran returns when a command was run.
func (m *machine) ran(command string) []runtimetest.Call {
	return slices.DeleteFunc(m.Calls("ExecSync"), func(c runtimetest.Call) bool {
		return c.Request.(*runtimeapi.ExecSyncRequest).GetCmd()[0] != command
	})
}

// app returns the status of the one container of a pod.
func (k *kubelet) app(pod string) corev1.ContainerStatus {
	k.t.Helper()
	st := k.pods()[pod].Status.ContainerStatuses
	if len(st) != 1 {
		k.t.Fatalf("pod %s has %d containers, want 1", pod, len(st))
	}
	return st[0]
}

// ready returns the condition Ready of a pod.
func (k *kubelet) ready(pod string) corev1.PodCondition {
	k.t.Helper()
	for _, c := range k.pods()[pod].Status.Conditions {
		if c.Type == corev1.PodReady {
			return c
		}
	}
	k.t.Fatalf("pod %s has no condition Ready", pod)
	return corev1.PodCondition{}
}

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

// TestFailedProbesRestartOnce: a liveness or a startup probe that fails its threshold
// has the container stopped once, with the grace period of the probe.
func TestFailedProbesRestartOnce(t *testing.T) {
	tests := []struct {
		name string
		edit func(*corev1.Container, *corev1.Probe)
	}{
		{name: "liveness", edit: func(c *corev1.Container, p *corev1.Probe) { c.LivenessProbe = p }},
		{name: "startup", edit: func(c *corev1.Container, p *corev1.Probe) { c.StartupProbe = p }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.SetLives("app", runtimetest.Life{IgnoreTerm: true})
				m.commands.set(inFirstRun(failing("check")))
				pod := newPod("web")
				probe := runs("check")
				probe.TerminationGracePeriodSeconds = new(int64(4))
				tt.edit(&pod.Spec.Containers[0], probe)
				m.manifests.write(pod)
				k := m.start(t)
				pass(4 * time.Second)
				if got := k.app("web"); got.RestartCount != 0 || got.State.Running == nil {
					t.Errorf("after one failure of two the container is %+v, want it running", got)
				}
				pass(30 * time.Second)
				stops := m.Calls("StopContainer")
				if len(stops) != 1 {
					t.Fatalf("%d stops, want 1", len(stops))
				}
				if got := stops[0].Request.(*runtimeapi.StopContainerRequest).GetTimeout(); got != 4 {
					t.Errorf("grace is %d s, want the probe's 4", got)
				}
				if got := k.app("web"); got.RestartCount != 1 || !got.Ready || !*got.Started {
					t.Errorf("container is %+v, want restarted once and ready", got)
				}
				if !m.log.has("msg=event", "reason=Killing", "Container app failed "+tt.name+" probe, will be restarted") {
					t.Error("the log has no event about the reason")
				}
			})
		})
	}
}

// TestStartupProbeGatesTheOthers: until it has succeeded nothing else is asked.
func TestStartupProbeGatesTheOthers(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.commands.set(failing("startup"))
		pod := newPod("slow")
		c := &pod.Spec.Containers[0]
		c.StartupProbe, c.LivenessProbe, c.ReadinessProbe = runs("startup"), runs("liveness"), runs("readiness")
		c.StartupProbe.FailureThreshold = 30
		m.manifests.write(pod)
		k := m.start(t)
		pass(20 * time.Second)
		if got := k.app("slow"); got.Ready || *got.Started {
			t.Errorf("container is %+v before its startup probe has succeeded", got)
		}
		if len(m.ran("liveness"))+len(m.ran("readiness")) > 0 || len(m.ran("startup")) < 4 {
			t.Errorf("commands are %d startup, %d liveness, %d readiness; want startup alone",
				len(m.ran("startup")), len(m.ran("liveness")), len(m.ran("readiness")))
		}
		m.commands.set(nil)
		pass(6 * time.Second)
		if got := k.app("slow"); !got.Ready || !*got.Started {
			t.Errorf("container is %+v, want started and ready", got)
		}
		before := len(m.ran("startup"))
		pass(20 * time.Second)
		if got := len(m.ran("startup")); got != before || len(m.ran("liveness")) < 4 {
			t.Errorf("%d startup probes after the first success, %d liveness probes", got-before, len(m.ran("liveness")))
		}
	})
}

// TestHungCommandIsAFailure: a command takes 10 s of its 1 s and would then do well.
// The runtime may kill it in time, or not care.
func TestHungCommandIsAFailure(t *testing.T) {
	tests := []struct {
		name   string
		answer func(runtimetest.Exec) runtimetest.ExecResult
	}{
		{name: "killed in time", answer: func(runtimetest.Exec) runtimetest.ExecResult {
			return runtimetest.ExecResult{After: 10 * time.Second}
		}},
		{name: "runs on", answer: func(runtimetest.Exec) runtimetest.ExecResult {
			<-time.After(10 * time.Second)
			return runtimetest.ExecResult{}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.commands.set(inFirstRun(tt.answer))
				pod := newPod("hung")
				pod.Spec.Containers[0].LivenessProbe = runs("check")
				m.manifests.write(pod)
				k := m.start(t)
				pass(30 * time.Second)
				if got := k.app("hung"); got.RestartCount != 1 || len(m.Calls("StopContainer")) != 1 {
					t.Errorf("%d restarts and %d stops, want 1 of each", got.RestartCount, len(m.Calls("StopContainer")))
				}
				calls := m.ran("check")
				for i, c := range calls {
					if got := c.Request.(*runtimeapi.ExecSyncRequest).GetTimeout(); got != 1 {
						t.Errorf("the runtime was told a timeout of %d s, want 1", got)
					}
					same := i > 0 && calls[i-1].Request.(*runtimeapi.ExecSyncRequest).GetContainerId() == c.Request.(*runtimeapi.ExecSyncRequest).GetContainerId()
					if same && c.Began.Before(calls[i-1].Ended) {
						t.Errorf("a command began at %s while another was at work until %s", c.Began, calls[i-1].Ended)
					}
				}
				if !m.log.has("msg=event", "reason=Unhealthy", "timed out after 1s") {
					t.Error("the log does not say that the command timed out")
				}
			})
		})
	}
}

// TestPodThatDrains: from the moment its manifest goes liveness is not asked any more,
// readiness is, until the app has ended by itself.
func TestPodThatDrains(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{Term: &runtimetest.Exit{After: 30 * time.Second}})
		pod := newPod("web")
		pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
		c := &pod.Spec.Containers[0]
		c.LivenessProbe, c.ReadinessProbe = runs("liveness"), runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(20 * time.Second)
		if !k.app("web").Ready {
			t.Fatal("the pod is not ready")
		}
		m.ForgetCalls()
		m.commands.set(failing("liveness", "readiness"))
		m.manifests.write()
		pass(15 * time.Second)
		if got := k.probes()["Readiness"]; got["value"] != "failure" {
			t.Errorf("readiness probe is %v, want failure", got)
		}
		pass(14 * time.Second)
		if len(m.ran("readiness")) < 5 || len(m.ran("liveness")) != 0 {
			t.Errorf("%d readiness and %d liveness probes of a pod that drains; want one each 5 s and none",
				len(m.ran("readiness")), len(m.ran("liveness")))
		}
		pass(10 * time.Second)
		stops := m.Calls("StopContainer")
		if len(stops) != 1 || stops[0].Ended.Sub(stops[0].Began) != 30*time.Second {
			t.Errorf("stops are %v, want one that took the app's 30 s", stops)
		}
		before := len(m.ran("readiness"))
		pass(time.Minute)
		if got := len(m.ran("readiness")); got != before || len(k.probes()) != 0 {
			t.Errorf("%d probes after the end; left are %v", got-before, k.probes())
		}
		if left := m.left(t); len(left) > 0 {
			t.Errorf("left over: %q", left)
		}
	})
}

// probes returns what /probes shows in JSON, by kind.
func (k *kubelet) probes() map[string]map[string]any {
	k.t.Helper()
	code, body := k.get("unix", "/probes?output=json")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(body), &rows); err != nil || code != http.StatusOK {
		k.t.Fatalf("/probes is %d %s: %v", code, body, err)
	}
	byKind := map[string]map[string]any{}
	for _, row := range rows {
		byKind[row["probe"].(string)] = row
	}
	return byKind
}

// TestRestartOfTheAgentTakesNothingBack: what was ready is never told to be unready
// because the agent began anew, and its condition keeps its time.
func TestRestartOfTheAgentTakesNothingBack(t *testing.T) {
	for name, age := range map[string]time.Duration{"old": 100 * time.Second, "young": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				pod := newPod("web")
				c := &pod.Spec.Containers[0]
				c.StartupProbe, c.ReadinessProbe, c.LivenessProbe = runs("startup"), runs("readiness"), runs("liveness")
				c.ReadinessProbe.PeriodSeconds = 60
				m.manifests.write(pod)
				k := m.start(t)
				pass(age)
				was := k.ready("web")
				if was.Status != corev1.ConditionTrue {
					t.Fatalf("condition is %+v, want ready", was)
				}
				k.end()
				pass(10 * time.Second)
				m.ForgetCalls()
				k = m.start(t, func(c *node.Config) { c.Kubelet.SyncFrequency.Duration = time.Second })
				for range 700 {
					pass(100 * time.Millisecond)
					if code, _ := k.get("unix", "/pods"); code != http.StatusOK {
						continue
					}
					st := k.app("web")
					if diff := cmp.Diff(was, k.ready("web")); diff != "" || !st.Ready || !*st.Started {
						t.Fatalf("container is %+v, condition (-before +after the restart):\n%s", st, diff)
					}
				}
				if got := len(m.ran("readiness")); got == 0 {
					t.Error("readiness was not asked within its period")
				}
				if got := len(m.ran("startup")); got != 0 {
					t.Errorf("startup was asked %d times of a container that had started", got)
				}
				m.unchanged(t)
				m.commands.set(failing("readiness"))
				pass(3 * time.Minute)
				if got := k.ready("web"); got.Status != corev1.ConditionFalse {
					t.Errorf("condition is %+v after failures, want false", got)
				}
			})
		})
	}
}

// TestContainerThatDiedBetweenTwoAgents: its successor has to earn its readiness.
func TestContainerThatDiedBetweenTwoAgents(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(20 * time.Second)
		was := k.ready("web")
		k.end()
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 137}); err != nil {
			t.Fatal(err)
		}
		m.commands.set(failing("readiness"))
		k = m.start(t)
		pass(20 * time.Second)
		if st := k.app("web"); st.Ready || st.RestartCount != 1 || st.State.Running == nil {
			t.Errorf("successor is %+v, want running and not ready", st)
		}
		m.commands.set(nil)
		pass(6 * time.Second)
		if got := k.ready("web"); got.Status != corev1.ConditionTrue || !got.LastTransitionTime.After(was.LastTransitionTime.Time) {
			t.Errorf("condition is %+v, want true since after %s", got, was.LastTransitionTime)
		}
	})
}

// TestProbingEndsWithTheContainer, and begins with its successor.
func TestProbingEndsWithTheContainer(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{}, runtimetest.Exits(20*time.Second, 0))
		pod := newPod("job")
		pod.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(20 * time.Second)
		first := k.probes()["Readiness"]["containerID"]
		if err := m.Exit("default/job", "app", runtimetest.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if got := k.probes()["Readiness"]["containerID"]; got == first || got == nil {
			t.Errorf("probed is %v after %v has ended, want its successor", got, first)
		}
		pass(30 * time.Second)
		if got := k.probes(); len(got) != 0 {
			t.Errorf("probed are %v after the pod has ended, want none", got)
		}
	})
}

// TestProbingDoesNotWaitForOtherContainers: the image of the second one takes a minute
// to pull. The first one fails meanwhile and is known to.
func TestProbingDoesNotWaitForOtherContainers(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetImage(runtimetest.Image{Name: "img.example/large:1", Pull: &runtimetest.Pull{Takes: time.Minute}})
		pod := newPod("pair")
		second := pod.Spec.Containers[0]
		second.Name, second.Image = "second", "img.example/large:1"
		pod.Spec.Containers = append(pod.Spec.Containers, second)
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(5 * time.Second)
		if got := k.probes()["Readiness"]; got["value"] != "success" || len(m.ran("readiness")) == 0 {
			t.Errorf("probe is %v while another image is pulled, want success", got)
		}
		if err := m.Exit("default/pair", "app", runtimetest.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if got := k.probes(); len(got) != 0 {
			t.Errorf("probed is %v after its container has ended, want nothing", got)
		}
		pass(2 * time.Minute)
		if got := k.ready("pair"); got.Status != corev1.ConditionTrue {
			t.Errorf("condition is %+v in the end, want true", got)
		}
	})
}

// TestSameFailureIsToldOnce, and again when it comes back.
func TestSameFailureIsToldOnce(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod)
		m.start(t)
		for want := 1; want <= 2; want++ {
			m.commands.set(failing("readiness"))
			pass(time.Minute)
			if got := m.log.count("reason=Unhealthy", "readiness says no"); got != want {
				t.Errorf("%d events, want %d", got, want)
			}
			m.commands.set(nil)
			pass(10 * time.Second)
		}
	})
}

// TestProbesPage shows each probe, for people and for programs.
func TestProbesPage(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.commands.set(failing("readiness"))
		pod := newPod("web")
		c := &pod.Spec.Containers[0]
		c.LivenessProbe, c.ReadinessProbe = runs("liveness"), runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(18 * time.Second)
		_, table := k.get("unix", "/probes")
		for _, want := range [][]string{
			{"POD", "CONTAINER", "PROBE", "VALUE", "MESSAGE"},
			{"default/web", "app", "Liveness", "success", "4", "0"},
			{"default/web", "app", "Readiness", "failure", "0", "4", "readiness says no"},
		} {
			if !hasRow(table, want) {
				t.Errorf("table has no row with %q:\n%s", want, table)
			}
		}
		row := k.probes()["Readiness"]
		last, _ := row["last"].(map[string]any)
		if row["failed"] != 4.0 || row["uid"] != "uid-web" || last["message"] != "readiness says no" || last["outcome"] != "failure" {
			t.Errorf("row is %v", row)
		}
	})
}

// results is a probe engine of somebody else's.
type results struct{ podstatus.Result }

func (r results) ProbeResult(string, podstatus.Probe) podstatus.Result { return r.Result }

// TestProbesOfSomebodyElse: they can be switched off, and be left to others.
func TestProbesOfSomebodyElse(t *testing.T) {
	tests := []struct {
		name   string
		probes node.Probes
		phase  corev1.PodPhase
		ready  bool
	}{
		{name: "off", probes: node.Probes{Off: true}, phase: corev1.PodFailed},
		{name: "ready", probes: node.Probes{Results: results{podstatus.Success}}, phase: corev1.PodRunning, ready: true},
		{name: "undecided", probes: node.Probes{Results: results{podstatus.Undecided}}, phase: corev1.PodRunning},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				pod := newPod("web")
				pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
				m.manifests.write(pod)
				k := m.start(t, func(c *node.Config) { c.Probes = tt.probes })
				pass(10 * time.Second)
				if got := k.pods()["web"].Status.Phase; got != tt.phase || k.app("web").Ready != tt.ready {
					t.Errorf("pod is %s, want %s; ready is %t, want %t", got, tt.phase, k.app("web").Ready, tt.ready)
				}
				if len(m.ran("readiness")) != 0 {
					t.Error("the probe was run")
				}
				if _, table := k.get("unix", "/probes"); !strings.Contains(table, "No probes are run") {
					t.Errorf("/probes is %q, want the reason", table)
				}
			})
		})
	}
}

// TestDamagedStatusFiles cost a moment of readiness and nothing else, and what was
// kept of pods that are gone goes.
func TestDamagedStatusFiles(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.UID = "uid web" // to be escaped
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod, newPod("gone"))
		k := m.start(t)
		pass(10 * time.Second)
		k.end()
		dir := filepath.Join(m.root, "pod-status")
		const file = "pod-uid%20web.json"
		if diff := cmp.Diff([]string{file, "pod-uid-gone.json"}, namesIn(t, dir)); diff != "" {
			t.Fatalf("files (-want +got):\n%s", diff)
		}
		for name, content := range map[string]string{file: `{"phase":`, ".pod-x.json.1": "{}", "pod-%zz.json": "{}"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m.ForgetCalls()
		m.manifests.write(pod)
		k = m.start(t)
		pass(40 * time.Second)
		if !m.log.has("level=WARN", file) {
			t.Error("the log does not tell")
		}
		if got := m.Calls("StartContainer"); len(got) != 0 || !k.app("web").Ready {
			t.Errorf("%d containers were started, container is %+v; want it ready", len(got), k.app("web"))
		}
		if diff := cmp.Diff([]string{file}, namesIn(t, dir)); diff != "" {
			t.Errorf("files in the end (-want +got):\n%s", diff)
		}
		m.manifests.write()
		pass(40 * time.Second)
		if got := namesIn(t, dir); len(got) != 0 {
			t.Errorf("files are %q after the pod has gone, want none", got)
		}
	})
}

// TestStatusThatCannotBeNoted is told all the same.
func TestStatusThatCannotBeNoted(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		k := m.start(t)
		pass(2 * time.Second)
		dir := filepath.Join(m.root, "pod-status")
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod, newPod("other"))
		pass(10 * time.Second)
		if !k.app("web").Ready || !k.app("other").Ready {
			t.Errorf("pods are %v, want both ready", k.pods())
		}
		if got := m.log.count("level=ERROR", "could not be noted"); got != 1 {
			t.Errorf("the log tells %d times, want once", got)
		}
	})
}

// namesIn returns the names of the files in a directory.
func namesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
