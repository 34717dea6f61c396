package node_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/staticpods"
)

// TestPodLivesAndLeavesNothing: a pod starts, is shown, loses its manifest and is
// gone with all it had.
func TestPodLivesAndLeavesNothing(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("web"))
		k := m.start(t)
		pass(3 * time.Second)
		pod := k.pods()["web"]
		if pod.Status.Phase != corev1.PodRunning || !strings.HasPrefix(pod.Status.ContainerStatuses[0].ContainerID, "runtimetest://") {
			t.Errorf("status is %+v, want a running pod with the runtime's name", pod.Status)
		}
		if !m.log.has("msg=event", "pod=default/web", "container=app", "reason=Started") {
			t.Error("the log has no event Started of the container")
		}
		m.manifests.write()
		pass(3 * time.Second)
		if len(k.pods()) != 0 {
			t.Errorf("pods are %v, want none", k.pods())
		}
		if left := m.left(t); len(left) > 0 {
			t.Errorf("left over: %q", left)
		}
	})
}

// TestRestartOfTheAgentRestartsNoContainer: the agent is cut off and started again,
// twice; the containers and what is told about them stay.
func TestRestartOfTheAgentRestartsNoContainer(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(10*time.Second, 1), runtimetest.Life{})
		m.manifests.write(newPod("web"), newPod("db"))
		k := m.start(t)
		pass(30 * time.Second)
		before, was := m.containers(t), k.pods()["web"].Status
		if len(before) != 2 || was.ContainerStatuses[0].RestartCount != 1 {
			t.Fatalf("running %v with %+v, want two pods restarted once", before, was.ContainerStatuses)
		}
		for range 2 {
			k.end()
			m.ForgetCalls()
			k = m.start(t)
			pass(2 * time.Minute)
			m.unchanged(t)
		}
		if diff := cmp.Diff(before, m.containers(t)); diff != "" {
			t.Errorf("containers (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(was, k.pods()["web"].Status); diff != "" {
			t.Errorf("status (-before +after):\n%s", diff)
		}
	})
}

// TestManifestsThatChangeWhileTheAgentIsDown: what vanished is stopped with the
// grace period it was made with, and what changed never runs twice.
func TestManifestsThatChangeWhileTheAgentIsDown(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Life{Term: &runtimetest.Exit{After: 8 * time.Second}})
		m.manifests.write(newPod("web"), newPod("gone"))
		k := m.start(t)
		pass(5 * time.Second)
		k.end()
		changed := newPod("web")
		changed.UID = "uid-web-2"
		m.manifests.write(changed)
		m.ForgetCalls()
		k = m.start(t)
		pass(7 * time.Second)
		if got := m.Calls("RunPodSandbox"); len(got) != 0 {
			t.Errorf("%v before the old version has ended", got)
		}
		pass(5 * time.Second)
		if pod := k.pods()["web"]; pod.UID != "uid-web-2" || pod.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s, want the new version running", pod.UID, pod.Status.Phase)
		}
		if got := len(m.Calls("StopContainer")); got != 2 {
			t.Errorf("%d containers were asked to stop, want 2", got)
		}
		if got := m.containers(t); len(got) != 1 {
			t.Errorf("running are %v, want the new version only", got)
		}
	})
}

// TestStrangersAreLeftAlone: pods that others made survive start, stop, restart and
// an empty manifest directory; --take-over stops them.
func TestStrangersAreLeftAlone(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.stranger(t, newPod("crictl"), nil)
		m.stranger(t, newPod("other-agent"), map[string]string{"io.nodekit.instance": "0123456789abcdef0123456789abcdef"})
		m.stranger(t, newPod("stock-kubelet"), map[string]string{staticpods.AnnotationSource: "file"})
		before := m.containers(t)
		m.manifests.write(newPod("web"))
		k := m.start(t)
		pass(time.Minute)
		k.end()
		m.manifests.write()
		k = m.start(t)
		pass(3 * time.Minute)
		if diff := cmp.Diff(before, m.containers(t)); diff != "" {
			t.Errorf("strangers (-before +after):\n%s", diff)
		}
		k.end()
		m.start(t, func(c *node.Config) { c.TakeOver = true })
		pass(time.Minute)
		if got := m.left(t); len(got) > 0 {
			t.Errorf("after taking over %q is left, want nothing", got)
		}
	})
}

// TestBrokenNeighbours: a pod with a field that is not supported is rejected with the
// field's name, its neighbour runs, and both are told.
func TestBrokenNeighbours(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		bad := newPod("bad")
		bad.Spec.ShareProcessNamespace = new(true)
		bad.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}}
		m.manifests.write(bad, newPod("good"))
		m.manifests.files = append(m.manifests.files, staticpods.FileStatus{
			Path: "/manifests/broken.yaml", State: staticpods.Invalid, Line: 10,
			Problems: []staticpods.Problem{{Line: 10, Field: "spec.containers[0].iamge", Message: "unknown field"}},
		})
		k := m.start(t)
		pass(5 * time.Second)
		pods := k.pods()
		if got := pods["good"].Status.Phase; got != corev1.PodRunning {
			t.Errorf("good is %s, want Running", got)
		}
		st := pods["bad"].Status
		if st.Phase != corev1.PodFailed || st.Reason != "UnsupportedField" || !strings.Contains(st.Message, "spec.volumes[0].persistentVolumeClaim") {
			t.Errorf("bad is %s, %s: %s; want Failed, UnsupportedField and the field's name", st.Phase, st.Reason, st.Message)
		}
		if _, started := m.containers(t)["bad"]; started {
			t.Error("bad was started")
		}
		_, table := k.get("unix", "/manifests")
		for _, want := range [][]string{
			{"good.yaml", "ok", "default/good", "Running"},
			{"bad.yaml", "ok", "default/bad", "Failed", "UnsupportedField", "persistentVolumeClaim"},
			{"broken.yaml", "invalid", "10", "spec.containers[0].iamge"},
		} {
			if !hasRow(table, want) {
				t.Errorf("table has no row with %q:\n%s", want, table)
			}
		}
		code, list := k.get("unix", "/manifests?output=json")
		if code != http.StatusOK || !strings.Contains(list, `"line":10`) {
			t.Errorf("/manifests?output=json is %d %s", code, list)
		}
		if code, _ := k.get("unix", "/manifests?output=yaml"); code != http.StatusBadRequest {
			t.Errorf("/manifests?output=yaml is %d, want %d", code, http.StatusBadRequest)
		}
	})
}

// hasRow reports whether a line of a table has all words.
func hasRow(table string, words []string) bool {
	for line := range strings.Lines(table) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all {
			return true
		}
	}
	return false
}

// TestRejectedManifestThatIsMendedRuns: a manifest with a UID of its own is rejected,
// mended, and runs under the same UID.
func TestRejectedManifestThatIsMendedRuns(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		bad := newPod("web")
		bad.Spec.ServiceAccountName = "admin"
		bad.Spec.Subdomain = "x"
		bad.Spec.Volumes = []corev1.Volume{{Name: "disk", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "x"}}}}
		m.manifests.write(bad)
		k := m.start(t)
		pass(5 * time.Second)
		if got := k.pods()["web"].Status.Phase; got != corev1.PodFailed {
			t.Fatalf("bad manifest is %s, want Failed", got)
		}
		m.manifests.write(newPod("web"))
		pass(5 * time.Second)
		if got := k.pods()["web"].Status; got.Phase != corev1.PodRunning {
			t.Errorf("mended manifest is %+v, want Running", got)
		}
	})
}

// TestCrashLoopIsCounted: restarts follow the back-off and are counted.
func TestCrashLoopIsCounted(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.SetLives("app", runtimetest.Exits(time.Second, 3))
		m.manifests.write(newPod("crash"))
		k := m.start(t)
		// Runs of 1 s begin at 0, 1, 12, 33 and 74 s, a second later at most.
		for _, step := range []struct {
			at   time.Duration
			want int32
		}{{10 * time.Second, 1}, {18 * time.Second, 2}, {40 * time.Second, 3}, {85 * time.Second, 4}} {
			pass(step.at - time.Since(m.began(t)))
			if got := k.pods()["crash"].Status.ContainerStatuses[0].RestartCount; got != step.want {
				t.Errorf("after %s the restart count is %d, want %d", step.at, got, step.want)
			}
		}
		if code, _ := k.get("tcp", "/healthz"); code != http.StatusOK {
			t.Errorf("healthz is %d while a pod crashes, want 200", code)
		}
	})
}

// began is when the first container was started.
func (m *machine) began(t *testing.T) time.Time {
	t.Helper()
	calls := m.Calls("StartContainer")
	if len(calls) == 0 {
		return time.Now()
	}
	return calls[0].Began
}

// TestRuntimeThatIsDown: the agent waits for it at the start, says so, and outlives
// an outage without touching the pods.
func TestRuntimeThatIsDown(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.Down()
		m.manifests.write(newPod("web"))
		k := m.start(t)
		pass(10 * time.Second)
		if code, body := k.get("tcp", "/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "container runtime has not answered yet") {
			t.Errorf("healthz is %d %q, want 500 and the reason", code, body)
		}
		if _, body := k.get("unix", "/manifests"); !strings.Contains(body, "once the container runtime answers") {
			t.Errorf("/manifests is %q, want the reason", body)
		}
		if !m.log.has("level=WARN", "container runtime does not answer") {
			t.Error("the log does not say that the runtime is down")
		}
		if err := m.Up(); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		if code, body := k.get("tcp", "/healthz"); code != http.StatusOK || body != "ok" {
			t.Errorf("healthz is %d %q, want 200 ok", code, body)
		}
		before := m.containers(t)
		m.Down()
		pass(20 * time.Second)
		if code, _ := k.get("tcp", "/healthz"); code != http.StatusOK {
			t.Errorf("healthz is %d 20 s after the runtime went, want 200 for 30 s", code)
		}
		pass(20 * time.Second)
		if code, body := k.get("tcp", "/healthz"); code != http.StatusInternalServerError || !strings.Contains(body, "was last heard 4") {
			t.Errorf("healthz is %d %q, want 500 and since when", code, body)
		}
		if code, _ := k.get("tcp", "/healthz/ping"); code != http.StatusOK {
			t.Errorf("ping is %d, want 200", code)
		}
		if err := m.Up(); err != nil {
			t.Fatal(err)
		}
		pass(5 * time.Second)
		if diff := cmp.Diff(before, m.containers(t)); diff != "" || len(before) != 1 {
			t.Errorf("containers (-before +after the outage):\n%s", diff)
		}
		if code, body := k.get("tcp", "/healthz?verbose"); code != http.StatusOK || !strings.Contains(body, "[+]runtime ok") {
			t.Errorf("healthz is %d %q, want 200", code, body)
		}
	})
}

// TestKilledContainerIsNoticedWithinSeconds: nothing but the relist tells.
func TestKilledContainerIsNoticedWithinSeconds(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("web"))
		m.start(t)
		pass(20 * time.Second)
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 137}); err != nil {
			t.Fatal(err)
		}
		m.ForgetCalls()
		pass(1500 * time.Millisecond)
		if len(m.Calls("StartContainer")) != 1 {
			t.Errorf("calls are %q, want the container started again", m.Changes())
		}
	})
}

// TestHungPodDelaysNoOther: the runtime never answers about the sandbox of one pod.
func TestHungPodDelaysNoOther(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.Inject("RunPodSandbox", runtimetest.Fault{Times: 1, Hang: true})
		m.manifests.write(newPod("hung"))
		k := m.start(t)
		pass(2 * time.Second)
		m.manifests.write(newPod("hung"), newPod("good"))
		pass(3 * time.Second)
		if got := k.pods()["good"].Status.Phase; got != corev1.PodRunning {
			t.Errorf("good is %s beside a hung pod, want Running", got)
		}
		if code, body := k.get("tcp", "/healthz"); code != http.StatusOK {
			t.Errorf("healthz is %d %q, want 200: one pod is not the node", code, body)
		}
	})
}

// TestLeftoversOfACrashAreRemoved: a directory of a pod whose sandbox is gone
// already goes, too, unless it was there before the agent.
func TestLeftoversOfACrashAreRemoved(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		mkdir := func(uid string) {
			if err := os.MkdirAll(filepath.Join(m.root, "pods", uid, "volumes"), 0o750); err != nil {
				t.Fatal(err)
			}
		}
		mkdir("before")
		k := m.start(t)
		pass(2 * time.Second)
		k.end()
		mkdir("after")
		m.start(t)
		pass(5 * time.Second)
		if diff := cmp.Diff([]string{"pods/before"}, m.left(t)); diff != "" {
			t.Errorf("left over (-want +got):\n%s", diff)
		}
	})
}

// TestSecondAgentIsRefused: one root directory has one agent.
func TestSecondAgentIsRefused(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.start(t)
		pass(time.Second)
		second := m.start(t)
		if err := <-second.ended; err == nil || !strings.Contains(err.Error(), "in use by another kubelet") {
			t.Errorf("Run = %v, want that the directory is in use", err)
		}
		second.stop()
		second.stop = nil
	})
}

// TestConfigThatLacksSomething names it.
func TestConfigThatLacksSomething(t *testing.T) {
	if _, err := node.New(node.Config{}); err == nil || !strings.Contains(err.Error(), "Config.Kubelet") {
		t.Errorf("New = %v, want an error about Config.Kubelet", err)
	}
}

// TestManifestPutBack: a manifest is removed and written again, the same to the last
// byte, while its app takes 10 of its 20 s to end.
func TestManifestPutBack(t *testing.T) {
	for name, gap := range map[string]time.Duration{"slow": 2 * time.Second, "quick": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.SetLives("app", runtimetest.Life{Term: &runtimetest.Exit{After: 10 * time.Second}})
				m.manifests.write(newPod("relay"))
				k := m.start(t)
				pass(10 * time.Second)
				m.manifests.write()
				pass(gap)
				m.manifests.write(newPod("relay"))
				for range 50 {
					pass(time.Second)
					if n := m.readySandboxes(t); n > 1 {
						t.Fatalf("%d sandboxes are ready", n)
					}
				}
				pod := k.pods()["relay"]
				if pod.Status.Phase != corev1.PodRunning || !pod.Status.ContainerStatuses[0].Ready {
					t.Errorf("pod is %+v, want running and ready", pod.Status)
				}
				starts := m.Calls("StartContainer")
				if len(starts) != 2 {
					t.Fatalf("%d starts, want 2", len(starts))
				}
				gone := m.Calls("StopContainer")[0]
				if took := gone.Ended.Sub(gone.Began); took != 10*time.Second {
					t.Errorf("the old container ended after %s, want its 10s", took)
				}
				if wait := starts[1].Began.Sub(gone.Ended); wait < 0 || wait > 15*time.Second {
					t.Errorf("the new container started %s after the old one ended, want within 15s", wait)
				}
			})
		})
	}
}

// readySandboxes counts them.
func (m *machine) readySandboxes(t *testing.T) int {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	list, err := c.ListPodSandbox(t.Context(), &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestStopIsRetriedOverFaultsAndRestarts: the runtime refuses to stop anything for
// 40 s after a manifest went, and the agent may be restarted meanwhile.
func TestStopIsRetriedOverFaultsAndRestarts(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(map[bool]string{false: "same agent", true: "restarted agent"}[restart], func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.manifests.write(newPod("web"))
				k := m.start(t)
				pass(20 * time.Second)
				down := runtimetest.Fault{Err: status.Error(codes.Unavailable, "no")}
				m.Inject("StopContainer", down)
				m.Inject("StopPodSandbox", down)
				next := newPod("web")
				next.UID = "uid-next"
				m.manifests.write(next)
				pass(20 * time.Second)
				if restart {
					k.end()
					k = m.start(t)
				}
				pass(20 * time.Second)
				m.ClearFaults()
				pass(40 * time.Second)
				if pod := k.pods()["web"]; pod.UID != "uid-next" || pod.Status.Phase != corev1.PodRunning {
					t.Errorf("pod %s is %s, want the successor running", pod.UID, pod.Status.Phase)
				}
				if got := m.readySandboxes(t); got != 1 {
					t.Errorf("%d sandboxes are ready, want the successor's", got)
				}
			})
		})
	}
}

// TestRuntimeThatSaysItIsNotReady makes the node unhealthy; a network that is not
// ready does not.
func TestRuntimeThatSaysItIsNotReady(t *testing.T) {
	tests := []struct {
		condition string
		want      int
	}{
		{condition: runtimeapi.RuntimeReady, want: http.StatusInternalServerError},
		{condition: runtimeapi.NetworkReady, want: http.StatusOK},
	}
	for _, tt := range tests {
		t.Run(tt.condition, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				k := m.start(t)
				pass(10 * time.Second)
				m.Inject("Status", runtimetest.Fault{Edit: func(resp proto.Message) {
					for _, c := range resp.(*runtimeapi.StatusResponse).GetStatus().GetConditions() {
						if c.GetType() == tt.condition {
							c.Status, c.Reason, c.Message = false, "Broken", "for a test"
						}
					}
				}})
				pass(40 * time.Second)
				if code, body := k.get("tcp", "/healthz"); code != tt.want {
					t.Errorf("healthz is %d %q, want %d", code, body, tt.want)
				}
				if !m.log.has("level=WARN", tt.condition+" is false: Broken: for a test") {
					t.Error("the log does not tell")
				}
				m.ClearFaults()
				pass(10 * time.Second)
				if code, body := k.get("tcp", "/healthz"); code != http.StatusOK {
					t.Errorf("healthz is %d %q after it became ready, want 200", code, body)
				}
			})
		})
	}
}

// TestPodsAreNotShownBeforeTheyAreKnown: who proxies for the pods must not see them
// vanish, or pend, because the agent was restarted.
func TestPodsAreNotShownBeforeTheyAreKnown(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("web"))
		k := m.start(t)
		pass(5 * time.Second)
		k.end()
		m.Inject("ContainerStatus", runtimetest.Fault{Delay: 4 * time.Second})
		k = m.start(t)
		for range 8 {
			pass(time.Second)
			code, body := k.get("unix", "/pods")
			known := code == http.StatusOK && strings.Contains(body, `"phase":"Running"`)
			if !known && code != http.StatusServiceUnavailable {
				t.Errorf("/pods is %d %s, want 503 or the running pod", code, body)
			}
			if health, _ := k.get("tcp", "/healthz"); (health == http.StatusOK) != known {
				t.Errorf("healthz is %d while /pods is %d", health, code)
			}
		}
		if got := k.pods()["web"].Status.Phase; got != corev1.PodRunning {
			t.Errorf("pod is %s in the end, want Running", got)
		}
	})
}

// TestUnchangedPodsAreNotSentAgain: the list has a tag that holds until something
// changes.
func TestUnchangedPodsAreNotSentAgain(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		m.manifests.write(newPod("web"))
		k := m.start(t)
		pass(5 * time.Second)
		first := k.ask("/pods", "")
		if tag := first.Header.Get("ETag"); tag == "" || k.ask("/pods", tag).StatusCode != http.StatusNotModified {
			t.Errorf("tag %q does not hold", tag)
		}
		if err := m.Exit("default/web", "app", runtimetest.Exit{Code: 1}); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		second := k.ask("/pods", first.Header.Get("ETag"))
		if second.StatusCode != http.StatusOK {
			t.Errorf("/pods is %d after a change, want 200", second.StatusCode)
		}
	})
}

// TestRuntimeTellsTheCgroupDriver: its word goes before the configuration's.
func TestRuntimeTellsTheCgroupDriver(t *testing.T) {
	tests := []struct {
		name   string
		fault  runtimetest.Fault
		starts int // how many answers are errors at first
		config string
		want   string
	}{
		{name: "systemd", fault: answerDriver(runtimeapi.CgroupDriver_SYSTEMD), config: "cgroupfs", want: "kubepods-besteffort-poduid_web.slice"},
		{name: "cgroupfs", fault: answerDriver(runtimeapi.CgroupDriver_CGROUPFS), config: "systemd", want: "/kubepods/besteffort/poduid-web"},
		{name: "starting", fault: answerDriver(runtimeapi.CgroupDriver_SYSTEMD), starts: 4, config: "cgroupfs", want: "kubepods-besteffort-poduid_web.slice"},
		{name: "says nothing of Linux", fault: runtimetest.Fault{Edit: func(resp proto.Message) {
			resp.(*runtimeapi.RuntimeConfigResponse).Linux = nil
		}}, config: "cgroupfs", want: "/kubepods/besteffort/poduid-web"},
		{name: "silent", fault: runtimetest.Fault{Err: status.Error(codes.Unimplemented, "old")}, config: "systemd", want: "kubepods-besteffort-poduid_web.slice"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				if tt.starts > 0 {
					m.Inject("RuntimeConfig", runtimetest.Fault{Times: tt.starts, Err: status.Error(codes.Unavailable, "server is not initialized yet")})
				}
				m.Inject("RuntimeConfig", tt.fault)
				m.manifests.write(newPod("web"))
				m.start(t, func(c *node.Config) { c.Kubelet.CgroupDriver = tt.config })
				pass(10 * time.Second)
				calls := m.Calls("RunPodSandbox")
				if len(calls) != 1 {
					t.Fatalf("%d sandboxes, want 1", len(calls))
				}
				got := calls[0].Request.(*runtimeapi.RunPodSandboxRequest).GetConfig().GetLinux().GetCgroupParent()
				if got != tt.want {
					t.Errorf("cgroup is %s, want %s", got, tt.want)
				}
			})
		})
	}
}

// answerDriver makes the runtime name a cgroup driver.
func answerDriver(driver runtimeapi.CgroupDriver) runtimetest.Fault {
	return runtimetest.Fault{Edit: func(resp proto.Message) {
		resp.(*runtimeapi.RuntimeConfigResponse).Linux = &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}
	}}
}
