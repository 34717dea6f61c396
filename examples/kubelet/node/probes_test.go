package node_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
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

// TestPostStartHookComesBeforeProbes: a container is not asked, and so not killed, before
// its hook has returned, however long that takes.
func TestPostStartHookComesBeforeProbes(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.commands.set(func(e runtimetest.Exec) runtimetest.ExecResult {
			if e.Cmd[0] == "hook" {
				return runtimetest.ExecResult{After: time.Minute}
			}
			return failing("liveness")(e)
		})
		pod := newPod("slow")
		c := &pod.Spec.Containers[0]
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"hook"}}}}
		c.LivenessProbe, c.ReadinessProbe = runs("liveness"), runs("readiness")
		m.manifests.write(pod)
		k := m.start(t)
		pass(50 * time.Second)
		if hooks, asked := len(m.ran("hook")), len(m.ran("liveness"))+len(m.ran("readiness")); hooks != 1 || asked != 0 {
			t.Errorf("while the hook runs: %d hooks and %d probes, want 1 and 0", hooks, asked)
		}
		m.commands.set(nil)
		pass(30 * time.Second)
		if got := k.app("slow"); got.RestartCount != 0 || !got.Ready {
			t.Errorf("after the hook the container is %+v, want ready, and not restarted", got)
		}
		if len(m.ran("liveness")) == 0 {
			t.Error("after the hook nobody asks whether the container is alive")
		}
	})
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

// TestProbesThatCannotBeMade: the address of the pod is not known. The log tells once,
// and the pod is not taken for ready.
func TestProbesThatCannotBeMade(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pod := newPod("web")
		pod.Spec.HostNetwork = true // its address is the node's
		pod.Spec.Containers[0].ReadinessProbe = &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}},
		}
		m.manifests.write(pod)
		k := m.start(t, func(c *node.Config) { c.Host.IPs = nil })
		pass(time.Minute)
		if got := m.log.count("level=WARN", "probes cannot be made", "no address"); got != 1 || k.app("web").Ready {
			t.Errorf("the log tells %d times, want once; container is %+v", got, k.app("web"))
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
// to pull. The first one fails meanwhile, and its successor is probed.
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
		first := k.probes()["Readiness"]
		if first["value"] != "success" || len(m.ran("readiness")) == 0 {
			t.Errorf("probe is %v while another image is pulled, want success", first)
		}
		if err := m.Exit("default/pair", "app", runtimetest.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		if got := k.probes()["Readiness"]["containerID"]; got == first["containerID"] || got == nil {
			t.Errorf("probed is %v after %v has ended, want its successor", got, first["containerID"])
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

// TestProbersOfOnesOwn: what is probed can be built by the user of the package.
func TestProbersOfOnesOwn(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.commands.set(failing("readiness"))
		pod := newPod("web")
		pod.Spec.Containers[0].ReadinessProbe = runs("readiness")
		m.manifests.write(pod)
		build := func(pod *corev1.Pod, cfg probes.PodConfig) ([]probes.Container, error) {
			containers, err := probes.FromPod(pod, cfg)
			for i := range containers {
				containers[i].Readiness.Prober = probestest.NewScript(probestest.Succeed())
			}
			return containers, err
		}
		k := m.start(t, func(c *node.Config) { c.Probes.Build = build })
		pass(10 * time.Second)
		if !k.app("web").Ready || len(m.ran("readiness")) != 0 {
			t.Errorf("container is %+v after %d commands, want it ready without", k.app("web"), len(m.ran("readiness")))
		}
	})
}
