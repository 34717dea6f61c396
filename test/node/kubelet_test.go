package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// hostFolder makes a folder on the node and a volume of it.
func (a *agent) hostFolder(name string) (string, corev1.Volume) {
	a.t.Helper()
	dir := a.Dir("host", name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		a.t.Fatal(err)
	}
	return dir, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: dir},
	}}
}

// readLog returns the lines of a container's log without time and stream.
func (a *agent) readLog(pod *corev1.Pod, attempt int) ([]string, error) {
	file := a.logFile(pod, attempt)
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var lines []string
	for line := range strings.Lines(string(data)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(fields) != 4 {
			return nil, fmt.Errorf("%s has the line %q", file, line)
		}
		lines = append(lines, fields[3])
	}
	return lines, nil
}

func (a *agent) logFile(pod *corev1.Pod, attempt int) string {
	folder := fmt.Sprintf("%s_%s_%s", pod.Namespace, pod.Name, pod.UID)
	return filepath.Join(a.PodLogs(), folder, "main", fmt.Sprintf("%d.log", attempt))
}

func TestStaticPodRunsAsItsManifestSays(t *testing.T) {
	a := startAgent(t)
	input, inputVolume := a.hostFolder("input")
	output, outputVolume := a.hostFolder("output")
	if err := os.WriteFile(filepath.Join(input, "greeting"), []byte("hello from the host"), 0o644); err != nil {
		t.Fatal(err)
	}
	pod := newPod("complete", "-print-env", "-read", "/input/greeting", "-write", "/scratch/file=$(GREETING)",
		"-journal", "/output/journal")
	pod.Spec.Volumes = []corev1.Volume{inputVolume, outputVolume, {
		Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	}}
	container := &pod.Spec.Containers[0]
	container.VolumeMounts = []corev1.VolumeMount{
		{Name: "input", MountPath: "/input", ReadOnly: true},
		{Name: "output", MountPath: "/output"},
		{Name: "scratch", MountPath: "/scratch"},
	}
	container.Env = []corev1.EnvVar{
		{Name: "WHOM", Value: "world"},
		{Name: "GREETING", Value: "hello $(WHOM)"},
		{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	}
	a.runPod(pod)
	running := a.waitReady("complete")

	var log []string
	a.eventually("the log has what the container printed", func(context.Context) error {
		var err error
		if log, err = a.readLog(running, 0); err == nil && !slices.Contains(log, "read hello from the host") {
			err = fmt.Errorf("it has %q", log)
		}
		return err
	})
	for _, want := range []string{"env WHOM=world", "env GREETING=hello world", "env POD=complete-node-a"} {
		if !slices.Contains(log, want) {
			t.Errorf("the container did not print %q but %q", want, log)
		}
	}
	scratch := filepath.Join(a.KubeletRoot(), "pods", string(running.UID), "volumes", "kubernetes.io~empty-dir", "scratch", "file")
	for file, want := range map[string]string{
		scratch:                           "^hello world$",
		filepath.Join(output, "journal"):  `^\S+ start \[\]\n`,
		filepath.Join(input, "greeting"):  "^hello from the host$",
		a.logFile(running, 0):             `^\d{4}-\d\d-\d\dT\S+ stdout F start \[\]\n`,
		filepath.Join(input, "not-there"): "",
	} {
		got, err := os.ReadFile(file)
		if want == "" {
			if !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", file, err)
			}
			continue
		}
		if err != nil || !regexp.MustCompile(want).Match(got) {
			t.Errorf("%s has %q, want %s (%v)", file, got, want, err)
		}
	}
	if ip := running.Status.PodIP; !strings.HasPrefix(ip, "10.244.1.") {
		t.Errorf("the pod's address is %q, want one of %s", ip, testnode.PodIPv4Range)
	}
}

func TestLimitsReachTheControlGroup(t *testing.T) {
	a := startAgent(t)
	pod := newPod("limited")
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
	}
	a.runPod(pod)
	a.waitReady("limited")
	got, err := testnode.ReadLimits(a.instances()[podName("limited")].PID)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Path, a.CgroupRoot()+"/kubepods/burstable/pod") {
		t.Errorf("the control group is %s, want one below %s/kubepods/burstable", got.Path, a.CgroupRoot())
	}
	// 100m are 102 of 1024 shares, which runc writes as a weight of 4 of 10000
	// where control groups have version 2. 250m are 25 ms in each period of 100 ms.
	want := testnode.Limits{
		Version: got.Version, Path: got.Path, MemoryBytes: 64 << 20,
		CPUWeight: map[int]int64{1: 102, 2: 4}[got.Version],
		CPUQuota:  25 * time.Millisecond, CPUPeriod: 100 * time.Millisecond,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
}

func TestCrashedContainerIsStartedAgainAndCounted(t *testing.T) {
	a := startAgent(t)
	a.runPod(newPod("crashes", "-for", "200ms", "-exit", "3"))
	pod := a.waitPod("crashes", "is in back-off after its second crash", func(pod *corev1.Pod) bool {
		statuses := pod.Status.ContainerStatuses
		return len(statuses) == 1 && statuses[0].RestartCount == 1 &&
			statuses[0].State.Waiting != nil && statuses[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	last := pod.Status.ContainerStatuses[0].LastTerminationState.Terminated
	if last == nil || last.ExitCode != 3 || last.Reason != "Error" {
		t.Errorf("the last end is %v, want exit code 3, reason Error", last)
	}
	// Of dead containers the newest one stays, and with it its log.
	if log, err := a.readLog(pod, 1); err != nil || !slices.Contains(log, "end 3") {
		t.Errorf("the log of the second attempt is %q, %v", log, err)
	}
}

func TestRestartPolicyNeverLeavesTheContainerEnded(t *testing.T) {
	a := startAgent(t)
	pod := newPod("once", "-for", "200ms", "-exit", "7")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	a.runPod(pod)
	ended := a.waitPod("once", "has failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	status := ended.Status.ContainerStatuses[0]
	if status.RestartCount != 0 || status.State.Terminated == nil || status.State.Terminated.ExitCode != 7 {
		t.Errorf("the container's status is %v, want the exit code 7 and no restart", status)
	}
}

// journal returns the events that a container of image life wrote to its journal,
// and when it was asked to end.
func (a *agent) journal(file string) (events []string, asked time.Time) {
	a.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		a.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		stamp, event, _ := strings.Cut(strings.TrimSpace(line), " ")
		events = append(events, event)
		if strings.HasPrefix(event, "signal ") {
			if asked, err = time.Parse(time.RFC3339Nano, stamp); err != nil {
				a.t.Fatal(err)
			}
		}
	}
	return events, asked
}

func TestContainerIsAskedBeforeItIsKilled(t *testing.T) {
	a := startAgent(t)
	const grace = 3 * time.Second
	seconds := int64(grace / time.Second)
	dir, volume := a.hostFolder("journals")
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{"polite", nil, []string{"start []", "signal terminated", "end 0"}},
		{"stubborn", []string{"-ignore-term"}, []string{"start []", "signal terminated"}},
	}
	for _, tt := range tests {
		pod := newPod(tt.name, append(tt.args, "-journal", "/journals/"+tt.name)...)
		pod.Spec.TerminationGracePeriodSeconds = &seconds
		pod.Spec.Volumes = []corev1.Volume{volume}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: volume.Name, MountPath: "/journals"}}
		a.runPod(pod)
	}
	for _, tt := range tests {
		a.waitReady(tt.name)
	}
	running := a.instances()
	for _, tt := range tests {
		a.removePod(tt.name)
	}
	ended := map[string]time.Time{}
	a.eventually("both containers have ended", func(context.Context) error {
		for _, tt := range tests {
			if ended[tt.name].IsZero() && errors.Is(unix.Kill(running[podName(tt.name)].PID, 0), unix.ESRCH) {
				ended[tt.name] = time.Now()
			}
		}
		if len(ended) < len(tests) {
			return fmt.Errorf("only these have: %v", ended)
		}
		return nil
	})
	for _, tt := range tests {
		events, asked := a.journal(filepath.Join(dir, tt.name))
		if diff := cmp.Diff(tt.want, events); diff != "" {
			t.Errorf("life of %s (-want +got):\n%s", tt.name, diff)
		}
		if took := ended[tt.name].Sub(asked); tt.name == "stubborn" && took < grace-100*time.Millisecond {
			t.Errorf("%s was killed %s after it was asked, want %s", tt.name, took, grace)
		} else if tt.name == "polite" && took > grace {
			t.Errorf("%s ended %s after it was asked, though it did so at once", tt.name, took)
		}
		a.waitGone(tt.name)
	}
}

func TestKilledKubeletComesBackAndRestartsNothing(t *testing.T) {
	a := startAgent(t)
	a.runPod(newWebPod("web", "web"))
	a.runPod(newPod("steady"))
	a.runPod(newPod("crashed-once"))
	for _, name := range []string{"web", "steady", "crashed-once"} {
		a.waitReady(name)
	}
	if err := unix.Kill(a.instances()[podName("crashed-once")].PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.waitPod("crashed-once", "was restarted", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return status.RestartCount == 1 && status.State.Running != nil
	})
	before, uids := a.instances(), a.podUIDs()

	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, a.instances()); diff != "" {
		t.Errorf("containers while the kubelet is dead (-before +after):\n%s", diff)
	}
	a.start()
	// A new pod shows that the new kubelet has been through its pods and acts.
	a.runPod(newPod("late"))
	for _, name := range []string{"web", "steady", "crashed-once", "late"} {
		a.waitReady(name)
	}
	after, uidsAfter := a.instances(), a.podUIDs()
	delete(after, podName("late"))
	delete(uidsAfter, podName("late"))
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("containers (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(uids, uidsAfter); diff != "" {
		t.Errorf("UIDs of the pods (-before +after):\n%s", diff)
	}
	if pod := a.waitReady("crashed-once"); pod.Status.ContainerStatuses[0].RestartCount != 1 {
		t.Errorf("the restart count is %d, want 1", pod.Status.ContainerStatuses[0].RestartCount)
	}
}

func (a *agent) podUIDs() map[string]string {
	a.t.Helper()
	pods, err := a.kubelet.Pods(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	uids := map[string]string{}
	for _, pod := range pods {
		uids[pod.Name] = string(pod.UID)
	}
	return uids
}
