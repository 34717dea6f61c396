package statuswriter_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

func newPod(name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}, RestartPolicy: corev1.RestartPolicyNever},
		Status:     corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort},
	}
}

func condition(t corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodCondition {
	return corev1.PodCondition{Type: t, Status: status}
}

// running is the status of a pod whose only container runs.
func running(ready corev1.ConditionStatus) *corev1.PodStatus {
	return &corev1.PodStatus{
		Phase:             corev1.PodRunning,
		Conditions:        []corev1.PodCondition{condition(corev1.PodReady, ready), condition(corev1.ContainersReady, ready)},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
	}
}

// ended is the status of a pod whose only container ended.
func ended(code int32) *corev1.PodStatus {
	phase := corev1.PodSucceeded
	if code != 0 {
		phase = corev1.PodFailed
	}
	return &corev1.PodStatus{
		Phase:      phase,
		Conditions: []corev1.PodCondition{condition(corev1.PodReady, corev1.ConditionFalse), condition(corev1.ContainersReady, corev1.ConditionFalse)},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		}},
	}
}

// open returns a Writer that runs until the test ends, or until stop is called.
func open(t *testing.T, cfg statuswriter.Config) (w *statuswriter.Writer, stop func()) {
	t.Helper()
	w, err := statuswriter.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return w, stop
}

// pass lets time pass and the Writer come to rest: timers of the same moment fire in any
// order.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func set(t *testing.T, w *statuswriter.Writer, pod *corev1.Pod, status *corev1.PodStatus) {
	t.Helper()
	if err := w.Set(pod, status); err != nil {
		t.Fatal(err)
	}
}

func wantCalls(t *testing.T, s *server, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.made()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func wantPhase(t *testing.T, s *server, name string, want corev1.PodPhase) {
	t.Helper()
	pod := s.get(name)
	if pod == nil {
		t.Fatalf("pod %s is not there", name)
	}
	if pod.Status.Phase != want {
		t.Errorf("pod %s is %s, want %s", name, pod.Status.Phase, want)
	}
}

func TestStatusesOfOneMomentAreWrittenInOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		pod := s.create(newPod("web", "u1"))
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		w.Observe(pod, "")
		set(t, w, pod, &corev1.PodStatus{Phase: corev1.PodPending, HostIP: "10.0.0.1"})
		set(t, w, pod, running(corev1.ConditionFalse))
		pass(time.Second)
		wantCalls(t, s, "patch web")
		set(t, w, pod, running(corev1.ConditionFalse)) // nothing new
		pass(time.Minute)
		wantCalls(t, s, "patch web")
		began := time.Now()
		set(t, w, pod, running(corev1.ConditionTrue)) // readiness does not wait
		synctest.Wait()
		wantCalls(t, s, "patch web", "patch web")
		if time.Since(began) != 0 {
			t.Error("readiness was not written at once")
		}
		if got := s.get("web"); got.Status.QOSClass != "" || got.Status.Phase != corev1.PodRunning {
			t.Errorf("the API server has %+v", got.Status)
		}
	})
}

func TestPodIsDeletedAfterItsEndIsKnownAndNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		pod := s.create(newPod("web", "u1"))
		var told []types.UID
		w, _ := open(t, statuswriter.Config{
			Pods: s.client, Dir: t.TempDir(),
			Hooks: statuswriter.Hooks{Acknowledged: func(uid types.UID) { told = append(told, uid) }},
		})
		var early []string
		s.before("patch", func() {
			if st, _ := w.Status(pod.UID); st.Phase == corev1.PodSucceeded && w.Acknowledged(pod.UID) {
				early = append(early, string(st.Phase))
			}
		})
		w.Observe(pod, "")
		set(t, w, pod, running(corev1.ConditionTrue))
		synctest.Wait()
		w.Observe(s.delete("web"), "")
		pass(time.Second)
		wantPhase(t, s, "web", corev1.PodRunning)

		set(t, w, pod, ended(0))
		synctest.Wait()
		if len(early) > 0 {
			t.Error("a terminal status is acknowledged before the API server has it")
		}
		wantPhase(t, s, "web", corev1.PodSucceeded)
		if !w.Acknowledged(pod.UID) || len(told) != 1 {
			t.Errorf("the API server has the terminal status; acknowledged %t, told %v", w.Acknowledged(pod.UID), told)
		}
		pass(time.Minute)
		wantPhase(t, s, "web", corev1.PodSucceeded) // volumes are not gone yet

		if err := w.Finished(pod); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.get("web") != nil {
			t.Error("the pod is still there")
		}
		wantCalls(t, s, "patch web", "patch web", "delete web")
	})
}

func TestPodDeletedWhilePendingFailsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		pod := s.create(newPod("web", "u1"))
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		w.Observe(pod, "")
		deleted := s.delete("web")
		w.Observe(deleted, "")
		if err := w.Finished(deleted); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.get("web") != nil {
			t.Error("the pod is still there")
		}
		if diff := cmp.Diff([]corev1.PodPhase{"Pending", "Pending", "Failed"}, s.seen["u1"]); diff != "" {
			t.Errorf("phases (-want +got):\n%s", diff)
		}
	})
}

func TestTerminalStatusOutlivesOutageAndCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		dir := t.TempDir()
		pod := s.create(newPod("job", "u1"))
		s.fail = func(string, string) error { return errDown }
		w, stop := open(t, statuswriter.Config{Pods: s.client, Dir: dir})
		w.Observe(pod, "")
		set(t, w, pod, ended(3))
		pass(5 * time.Minute)
		if w.Acknowledged(pod.UID) {
			t.Error("acknowledged while the API server is down")
		}
		if n := len(s.made()); n > 40 {
			t.Errorf("%d calls in 5 minutes of outage", n)
		}
		stop() // the process dies; another one begins

		w, _ = open(t, statuswriter.Config{Pods: s.client, Dir: dir})
		if st, ok := w.Status("u1"); !ok || st.Phase != corev1.PodFailed {
			t.Errorf("after the restart the pod is %q", st.Phase)
		}
		if w.Acknowledged("u1") {
			t.Error("acknowledged after the restart")
		}
		set(t, w, pod, running(corev1.ConditionTrue)) // what the runtime shows of another life
		pass(time.Minute)
		s.failWith(nil)
		pass(15 * time.Second)
		wantPhase(t, s, "job", corev1.PodFailed)
		if got := s.get("job").Status.ContainerStatuses[0].State.Terminated; got == nil || got.ExitCode != 3 {
			t.Errorf("the container ended as %v, want exit code 3", got)
		}
		if !w.Acknowledged("u1") {
			t.Error("not acknowledged although the API server has it")
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("the journal holds %v, %v", left, err)
		}
	})
}

func TestTerminalStatusesAreWrittenFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.delay = time.Second
		w, _ := open(t, statuswriter.Config{Pods: s.client, Parallel: 1})
		pods := map[string]*corev1.Pod{}
		for _, name := range []string{"blocks", "plain", "unready", "ended"} {
			pods[name] = s.create(newPod(name, types.UID(name)))
			if name == "unready" {
				pods[name].Status = *running(corev1.ConditionTrue)
				pods[name] = s.create(pods[name])
			}
			w.Observe(pods[name], "")
		}
		set(t, w, pods["blocks"], ended(0))
		pass(time.Millisecond)
		set(t, w, pods["plain"], running(corev1.ConditionFalse))
		set(t, w, pods["unready"], running(corev1.ConditionFalse))
		set(t, w, pods["ended"], ended(0))
		pass(10 * time.Second)
		wantCalls(t, s, "patch blocks", "patch ended", "patch unready", "patch plain")
	})
}

func TestOnePodThatIsRefusedDoesNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		bad, good := s.create(newPod("bad", "u1")), s.create(newPod("good", "u2"))
		s.fail = func(_, name string) error {
			if name == "bad" {
				return apierrors.NewForbidden(resource, name, errors.New("no"))
			}
			return nil
		}
		w, _ := open(t, statuswriter.Config{Pods: s.client, Parallel: 1})
		w.Observe(bad, "")
		w.Observe(good, "")
		set(t, w, bad, ended(0))
		pass(time.Second)
		set(t, w, good, running(corev1.ConditionTrue))
		pass(time.Second)
		wantPhase(t, s, "good", corev1.PodRunning)
		pass(10 * time.Minute)
		if n := len(s.made()); n > 40 {
			t.Errorf("%d calls for a pod that is refused, in 10 minutes", n)
		}
	})
}

func TestAnotherPodOfTheSameNameIsLeftAlone(t *testing.T) {
	for _, observed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			old := s.create(newPod("web", "old"))
			w, _ := open(t, statuswriter.Config{Pods: s.client, Dir: t.TempDir()})
			if observed {
				w.Observe(old, "")
			}
			s.create(newPod("web", "new"))
			set(t, w, old, ended(1))
			pass(time.Minute)
			wantPhase(t, s, "web", corev1.PodPending)
			if !w.Acknowledged("old") {
				t.Error("the end of a pod that is gone waits for ever")
			}
			calls := len(s.made())
			set(t, w, old, ended(2))
			pass(time.Minute)
			if len(s.made()) != calls {
				t.Errorf("calls for a pod that is gone: %v", s.made())
			}
		})
	}
}

func TestWhatOthersWriteStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		pod := newPod("web", "u1")
		pod.Status.Conditions = []corev1.PodCondition{condition("example.com/gate", corev1.ConditionTrue)}
		pod = s.create(pod)
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		w.Observe(pod, "")
		set(t, w, pod, running(corev1.ConditionTrue))
		synctest.Wait()
		got := s.get("web")
		if len(got.Status.Conditions) != 3 {
			t.Errorf("conditions are %v", got.Status.Conditions)
		}
		// Somebody overwrites what the node says: it is said again.
		got.Status.Phase, got.Status.PodIP = corev1.PodPending, "203.0.113.1"
		w.Observe(s.create(got), "")
		pass(time.Second)
		if now := s.get("web").Status; now.Phase != corev1.PodRunning || now.PodIP != "" {
			t.Errorf("the API server has phase %s, address %q", now.Phase, now.PodIP)
		}
		// Somebody ends the pod: that is final.
		got = s.get("web")
		got.Status.Phase, got.Status.Reason = corev1.PodFailed, "NodeLost"
		w.Observe(s.create(got), "")
		set(t, w, pod, running(corev1.ConditionFalse))
		pass(time.Second)
		if now := s.get("web").Status; now.Phase != corev1.PodFailed || now.Reason != "NodeLost" {
			t.Errorf("the API server has phase %s, reason %q", now.Phase, now.Reason)
		}
	})
}

func TestStaticPodIsWrittenToItsMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		static := newPod("etcd-node-a", "static")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		w, _ := open(t, statuswriter.Config{Pods: s.client, Dir: t.TempDir()})
		set(t, w, static, running(corev1.ConditionTrue))
		pass(time.Minute)
		wantCalls(t, s)
		for _, uid := range []types.UID{"mirror-1", "mirror-2"} {
			mirror := newPod("etcd-node-a", uid)
			mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			w.Observe(s.create(mirror), static.UID)
			pass(time.Second)
			wantPhase(t, s, static.Name, corev1.PodRunning)
			s.vanish(static.Name)
			w.Gone(uid)
		}
		w.Observe(s.delete2(static.Name, "mirror-3"), static.UID)
		if err := w.Finished(static); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if s.get(static.Name) == nil {
			t.Error("a mirror was removed, which is for its own controller")
		}
	})
}

// TestMirrorIsBelievedByItsName: anybody who may make pods in one namespace can write the UID
// of a pod of another into an annotation.
func TestMirrorIsBelievedByItsName(t *testing.T) {
	static := newPod("etcd-node-a", "u1")
	static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	for name, victim := range map[string]*corev1.Pod{"a pod of the API server": newPod("web", "u1"), "a static pod": static} {
		for _, when := range []string{"before the pod is known", "afterwards"} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					shown := s.create(victim)
					owner := types.UID("")
					if name == "a static pod" {
						shown, owner = s.mirror(victim.Name, "mirror-1"), victim.UID
					}
					w, _ := open(t, statuswriter.Config{Pods: s.client, Dir: t.TempDir()})
					forge := func() {
						for _, forged := range []*corev1.Pod{s.mirror("forged", "mirror-2"), s.mirror("other", "mirror-3")} {
							w.Observe(forged, victim.UID)
						}
					}
					if when == "before the pod is known" {
						forge()
					}
					w.Observe(shown, owner)
					set(t, w, victim, running(corev1.ConditionTrue))
					pass(time.Second)
					if when == "afterwards" {
						forge()
					}
					w.Gone("mirror-2")
					set(t, w, victim, ended(0))
					pass(time.Second)
					wantPhase(t, s, victim.Name, corev1.PodSucceeded)
					wantPhase(t, s, "forged", corev1.PodPending)
					wantPhase(t, s, "other", corev1.PodPending)
				})
			})
		}
	}
}

// TestNextMirrorIsWrittenAtOnce: that of before may be told to be gone when the next one is
// there.
func TestNextMirrorIsWrittenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		static := newPod("etcd-node-a", "static")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		w.Observe(s.mirror(static.Name, "mirror-1"), static.UID)
		w.Observe(s.mirror(static.Name, "mirror-2"), static.UID)
		w.Gone("mirror-1")
		set(t, w, static, running(corev1.ConditionTrue))
		pass(time.Second)
		wantPhase(t, s, static.Name, corev1.PodRunning)
	})
}

// mirror stores a mirror of a static pod.
func (s *server) mirror(name string, uid types.UID) *corev1.Pod {
	mirror := newPod(name, uid)
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	return s.create(mirror)
}

// delete2 stores a mirror that is being deleted.
func (s *server) delete2(name string, uid types.UID) *corev1.Pod {
	s.mirror(name, uid)
	return s.delete(name)
}

func TestTerminalPhaseWaitsForTheLastContainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		pod := s.create(newPod("web", "u1"))
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		w.Observe(pod, "")
		set(t, w, pod, running(corev1.ConditionTrue))
		synctest.Wait()
		evicted := running(corev1.ConditionTrue)
		evicted.Phase, evicted.Reason = corev1.PodFailed, "Evicted"
		evicted.Conditions = append(evicted.Conditions, condition(corev1.DisruptionTarget, corev1.ConditionTrue))
		set(t, w, pod, evicted)
		pass(time.Minute)
		if st := s.get("web").Status; st.Phase != corev1.PodRunning || st.Reason != "" || len(st.Conditions) != 2 {
			t.Errorf("while a container runs the API server has %s, %q, %v", st.Phase, st.Reason, st.Conditions)
		}
		if w.Acknowledged("u1") {
			t.Error("acknowledged before it was told")
		}
		end := ended(0)
		end.Phase, end.Conditions = corev1.PodFailed, evicted.Conditions
		set(t, w, pod, end)
		synctest.Wait()
		st := s.get("web").Status
		if st.Phase != corev1.PodFailed || st.Reason != "Evicted" || len(st.Conditions) != 3 {
			t.Errorf("after its end the API server has %s, %q, %v", st.Phase, st.Reason, st.Conditions)
		}
		for _, c := range st.Conditions {
			if c.Type != corev1.DisruptionTarget && c.Status != corev1.ConditionFalse {
				t.Errorf("condition %s of a pod that has ended is %s", c.Type, c.Status)
			}
		}
	})
}

func TestFlushWaitsForWhatWasSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.delay = time.Second
		w, _ := open(t, statuswriter.Config{Pods: s.client, Batch: time.Hour})
		pod := s.create(newPod("web", "u1"))
		w.Observe(pod, "")
		set(t, w, pod, running(corev1.ConditionFalse))
		if err := w.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantPhase(t, s, "web", corev1.PodRunning)
		s.failWith(func(string, string) error { return errDown })
		set(t, w, pod, ended(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := w.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Flush while the API server is down: %v", err)
		}
	})
}

func TestDamagedJournalIsPutAside(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"pod-a.json":      "{",
		"pod-b.json":      `{"namespace":"x","name":"b","uid":"other","status":{"phase":"Failed"}}`,
		"pod-c.json":      `{"namespace":"x","name":"c","uid":"c","status":{"phase":"Running"}}`,
		"pod-d.json":      `{"namespace":"x","name":"d","uid":"d","status":{"phase":"Failed"}}`,
		".pod-e.json.123": "{",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w, err := statuswriter.Open(statuswriter.Config{Pods: newServer().client, Dir: dir})
	if w == nil || err == nil {
		t.Fatalf("Open returned %v, %v", w, err)
	}
	if w.Acknowledged("d") || !w.Acknowledged("c") {
		t.Error("the good file was not read, or a bad one was")
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	var got []string
	for _, name := range names {
		got = append(got, filepath.Base(name))
	}
	want := []string{"pod-a.json.bad", "pod-b.json.bad", "pod-c.json.bad", "pod-d.json"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestConfigNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  statuswriter.Config
	}{
		{"no client", statuswriter.Config{}},
		{"negative parallel", statuswriter.Config{Pods: newServer().client, Parallel: -1}},
		{"negative timeout", statuswriter.Config{Pods: newServer().client, Timeout: -1}},
		{"directory is a file", statuswriter.Config{Pods: newServer().client, Dir: os.DevNull}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if w, err := statuswriter.Open(tc.cfg); w != nil || err == nil {
				t.Errorf("Open returned %v, %v", w, err)
			}
		})
	}
}

// TestPodWithoutNameHoldsNothingUp: of what a crash has left sometimes only the UID is
// known. Clients refuse to ask for a pod without a name, which looks as if the API server
// were away.
func TestPodWithoutNameHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(newPod("a", "u1"))
		s.fail = func(_, name string) error {
			if name == "" {
				return errors.New("resource name may not be empty")
			}
			return nil
		}
		dir := t.TempDir()
		w, stop := open(t, statuswriter.Config{Pods: s.client, Dir: dir})
		rest := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u2"}}
		if err := errors.Join(w.Set(rest, ended(1)), w.Finished(rest)); err != nil {
			t.Error(err)
		}
		if !w.Acknowledged("u2") {
			t.Error("somebody is waited for who cannot be told")
		}
		if err := w.Set(newPod("a", "u1"), ended(0)); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		if got := s.get("a").Status.Phase; got != corev1.PodSucceeded {
			t.Errorf("the other pod is %s, want Succeeded", got)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("the journal holds %v (%v), want nothing", left, err)
		}
		stop()
	})
}
