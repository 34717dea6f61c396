package statuswriter

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"pgregory.net/rapid"
)

// genStatus draws a status out of few values, so that two of them have much in common.
func genStatus() *rapid.Generator[*corev1.PodStatus] {
	return rapid.Custom(func(t *rapid.T) *corev1.PodStatus {
		s := &corev1.PodStatus{
			Phase:   rapid.SampledFrom([]corev1.PodPhase{"", "Pending", "Running", "Succeeded", "Failed"}).Draw(t, "phase"),
			Reason:  rapid.SampledFrom([]string{"", "Evicted"}).Draw(t, "reason"),
			Message: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "message"),
		}
		kinds := []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.DisruptionTarget, "example.com/gate"}
		for _, c := range rapid.Permutation(kinds).Draw(t, "conditions")[:rapid.IntRange(0, len(kinds)).Draw(t, "n")] {
			s.Conditions = append(s.Conditions, corev1.PodCondition{
				Type:    c,
				Status:  rapid.SampledFrom([]corev1.ConditionStatus{"True", "False"}).Draw(t, "status"),
				Reason:  rapid.SampledFrom([]string{"", "r"}).Draw(t, "r"),
				Message: rapid.SampledFrom([]string{"", "m"}).Draw(t, "m"),
			})
		}
		for _, ip := range rapid.Permutation([]string{"10.0.0.1", "fd00::1"}).Draw(t, "ips")[:rapid.IntRange(0, 2).Draw(t, "n")] {
			s.PodIPs = append(s.PodIPs, corev1.PodIP{IP: ip})
			s.HostIPs = append(s.HostIPs, corev1.HostIP{IP: ip})
			s.PodIP = s.PodIPs[0].IP
		}
		for _, name := range []string{"a", "b"}[:rapid.IntRange(0, 2).Draw(t, "containers")] {
			s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{Name: name, State: genState().Draw(t, name)})
		}
		return s
	})
}

func genState() *rapid.Generator[corev1.ContainerState] {
	return rapid.Custom(func(t *rapid.T) corev1.ContainerState {
		switch rapid.IntRange(0, 2).Draw(t, "state") {
		case 0:
			return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		case 1:
			return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(1, 0)}}
		}
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: rapid.Int32Range(0, 2).Draw(t, "exit")}}
	})
}

// TestPatchMakesOneStatusTheOther has the code of the API server apply the patches.
func TestPatchMakesOneStatusTheOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, next := genStatus().Draw(t, "old"), genStatus().Draw(t, "next")
		data, err := patch("u1", old, next)
		if err != nil {
			t.Fatal(err)
		}
		if data == nil {
			if diff := cmp.Diff(old, next); diff != "" {
				t.Fatalf("no patch for (-old +next):\n%s", diff)
			}
			return
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u1"}, Status: *old}
		before, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		after, err := strategicpatch.StrategicMergePatch(before, data, corev1.Pod{})
		if err != nil {
			t.Fatalf("patch %s is refused: %v", data, err)
		}
		got := &corev1.Pod{}
		if err := json.Unmarshal(after, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(next, &got.Status); diff != "" {
			t.Fatalf("after patch %s (-want +got):\n%s", data, diff)
		}
	})
}

func TestPatchSaysNoMoreThanWhatChanged(t *testing.T) {
	old := &corev1.PodStatus{
		Phase: corev1.PodPending, HostIP: "10.0.0.1",
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: "False", Reason: "r"}, {Type: corev1.PodScheduled, Status: "True"}},
	}
	next := old.DeepCopy()
	next.HostIP, next.Phase = "", corev1.PodRunning
	next.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: "True"}
	data, err := patch("u1", old, next)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"uid":"u1"},"status":{"$setElementOrder/conditions":[{"type":"Ready"},{"type":"PodScheduled"}],` +
		`"conditions":[{"reason":null,"status":"True","type":"Ready"}],"hostIP":null,"phase":"Running"}}`
	if diff := cmp.Diff(want, string(data)); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

// TestMergeKeepsPhasesAndOthers checks what merge promises for any two statuses.
func TestMergeKeepsPhasesAndOthers(t *testing.T) {
	terminal := func(p corev1.PodPhase) bool { return p == corev1.PodFailed || p == corev1.PodSucceeded }
	rapid.Check(t, func(t *rapid.T) {
		server, own := genStatus().Draw(t, "server"), genStatus().Draw(t, "own")
		got := merge(server, own)
		if terminal(server.Phase) && got.Phase != server.Phase {
			t.Fatalf("phase went from %s to %s", server.Phase, got.Phase)
		}
		if terminal(got.Phase) && !terminal(server.Phase) && runs(own) {
			t.Fatal("the phase became terminal while a container runs")
		}
		for _, c := range got.Conditions {
			if terminal(got.Phase) && (c.Type == corev1.PodReady || c.Type == corev1.ContainersReady) && c.Status == corev1.ConditionTrue {
				t.Fatalf("%s of a pod that ended is true", c.Type)
			}
		}
		gate := func(s *corev1.PodStatus) *corev1.PodCondition { return find(s.Conditions, "example.com/gate") }
		if diff := cmp.Diff(gate(server), gate(got)); diff != "" {
			t.Fatalf("condition of another (-had +has):\n%s", diff)
		}
		if diff := cmp.Diff(got, merge(got, own)); diff != "" {
			t.Fatalf("merged again (-first +second):\n%s", diff)
		}
	})
}

func TestFinishCompletesWhatNobodySaw(t *testing.T) {
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}
	run := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	done := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	lost := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: lostReason, Message: lostMessage, ExitCode: lostExit}}
	always, yes := corev1.ContainerRestartPolicyAlways, true
	status := func(states ...corev1.ContainerState) (out []corev1.ContainerStatus) {
		for _, s := range states {
			out = append(out, corev1.ContainerStatus{State: s})
		}
		return out
	}
	for _, tc := range []struct {
		name           string
		init           []corev1.Container
		static         bool
		was, want      corev1.PodPhase
		inits, regular []corev1.ContainerState
		wantInits      []corev1.ContainerState
		wantRegular    []corev1.ContainerState
	}{
		{name: "never started", was: "Pending", want: "Failed", regular: []corev1.ContainerState{waiting}, wantRegular: []corev1.ContainerState{lost}},
		{name: "all ended", was: "Succeeded", want: "Succeeded", regular: []corev1.ContainerState{done}, wantRegular: []corev1.ContainerState{done}},
		{name: "static", static: true, was: "Running", want: "Running", regular: []corev1.ContainerState{run}, wantRegular: []corev1.ContainerState{lost}},
		{
			name: "stopped in the first init container", init: make([]corev1.Container, 2), was: "Pending", want: "Failed",
			inits: []corev1.ContainerState{waiting, waiting}, wantInits: []corev1.ContainerState{lost, waiting},
			regular: []corev1.ContainerState{waiting}, wantRegular: []corev1.ContainerState{waiting},
		},
		{
			name: "init containers done", init: make([]corev1.Container, 1), was: "Pending", want: "Failed",
			inits: []corev1.ContainerState{done}, wantInits: []corev1.ContainerState{done},
			regular: []corev1.ContainerState{waiting}, wantRegular: []corev1.ContainerState{lost},
		},
		{
			name: "sidecar started", init: []corev1.Container{{RestartPolicy: &always}}, was: "Running", want: "Failed",
			inits: []corev1.ContainerState{run}, wantInits: []corev1.ContainerState{lost},
			regular: []corev1.ContainerState{waiting}, wantRegular: []corev1.ContainerState{lost},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: tc.init}}
			if tc.static {
				pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
			}
			st := &corev1.PodStatus{Phase: tc.was, InitContainerStatuses: status(tc.inits...), ContainerStatuses: status(tc.regular...)}
			if len(st.InitContainerStatuses) > 0 {
				st.InitContainerStatuses[0].Started = &yes
			}
			got := finish(pod, st)
			var inits, regular []corev1.ContainerState
			for i := range got.InitContainerStatuses {
				inits = append(inits, got.InitContainerStatuses[i].State)
			}
			for i := range got.ContainerStatuses {
				regular = append(regular, got.ContainerStatuses[i].State)
			}
			if got.Phase != tc.want {
				t.Errorf("phase is %s, want %s", got.Phase, tc.want)
			}
			if diff := cmp.Diff(tc.wantInits, inits); diff != "" {
				t.Errorf("init containers (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantRegular, regular); diff != "" {
				t.Errorf("containers (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzJournal has any bytes be a file of the journal.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"namespace":"x","name":"d","uid":"d","status":{"phase":"Failed"}}`))
	f.Add([]byte(`{"namespace":"x","name":"d","uid":"../d","status":{"phase":"Succeeded","containerStatuses":[{"name":"a"}]}}`))
	f.Add([]byte(`{"status":{"phase":"Failed"}}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := decode(data)
		if err != nil {
			return
		}
		dir := t.TempDir()
		j := &journal{dir: dir, kept: map[types.UID]corev1.PodStatus{}}
		if len(fileName(n.UID)) > 200 {
			return // no UID is that long; the file system would refuse it
		}
		if err := j.put(n.pod(), &n.Status); err != nil {
			t.Fatal(err)
		}
		_, notes, err := openJournal(dir)
		if err != nil || len(notes) != 1 {
			t.Fatalf("read back %d files, %v", len(notes), err)
		}
		if got := notes[0]; got.UID != n.UID || got.Name != n.Name || got.Status.Phase != n.Status.Phase {
			t.Fatalf("wrote %+v, read %+v", n, got)
		}
	})
}
