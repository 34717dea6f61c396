package node_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// newProbedPod returns a pod with a web server, which is ready when it answers, and a
// client beside it, which lives as long as it gets answers.
func newProbedPod(name string) *corev1.Pod {
	pod := newWebPod(name, name)
	pod.Spec.TerminationGracePeriodSeconds = new(int64(2))
	server := &pod.Spec.Containers[0]
	server.ReadinessProbe = &corev1.Probe{
		ProbeHandler:  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(8080)}},
		PeriodSeconds: 1, FailureThreshold: 2,
	}
	ask := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/life", "get", "http://127.0.0.1:8080", "1"}}}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
		Name: "client", Image: testnode.Life().Ref,
		StartupProbe:  &corev1.Probe{ProbeHandler: ask, PeriodSeconds: 1, FailureThreshold: 100},
		LivenessProbe: &corev1.Probe{ProbeHandler: ask, PeriodSeconds: 1, FailureThreshold: 2, TerminationGracePeriodSeconds: new(int64(1))},
	})
	return pod
}

// statusOf returns the status of a container of a pod.
func statusOf(pod *corev1.Pod, container string) corev1.ContainerStatus {
	for _, st := range pod.Status.ContainerStatuses {
		if st.Name == container {
			return st
		}
	}
	return corev1.ContainerStatus{}
}

// clients counts the probe commands that run.
func clients() (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	n := 0
	for _, file := range files {
		// Processes come and go.
		if data, err := os.ReadFile(file); err == nil && bytes.HasPrefix(data, []byte("/life\x00get\x00")) {
			n++
		}
	}
	return n, nil
}

func TestHungServerIsUnreadyAndItsClientRestartsOnce(t *testing.T) {
	a := startAgent(t)
	a.runPod(newProbedPod("pair"))
	before := a.waitReady("pair")
	pid, err := a.CRI().ContainerPID(t.Context(), a.containerID("pair", "main"))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) }) // a stopped process is slow to end
	a.waitPod("pair", "is unready and its client was restarted", func(pod *corev1.Pod) bool {
		client := statusOf(pod, "client")
		return !statusOf(pod, "main").Ready && client.RestartCount == 1 && client.State.Running != nil
	})
	a.eventually("the page of probes tells", func(ctx context.Context) error {
		page, err := a.kubelet.Get(ctx, "/probes")
		for _, want := range []string{"Startup", "Liveness", "Readiness", "failure", "timed out after 1s"} {
			if err == nil && !bytes.Contains(page, []byte(want)) {
				err = fmt.Errorf("it has no %q:\n%s", want, page)
			}
		}
		return err
	})
	// Commands that hang are killed, and none begins beside another.
	for range 20 {
		time.Sleep(200 * time.Millisecond) // the kernel's time is what is measured
		if n, err := clients(); err != nil || n > 1 {
			t.Fatalf("%d commands of one probe run at a time, %v", n, err)
		}
	}
	if err := unix.Kill(pid, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	after := a.waitReady("pair")
	if got := statusOf(after, "client").RestartCount; got != 1 {
		t.Errorf("the client was restarted %d times, want once", got)
	}
	if diff := cmp.Diff(statusOf(before, "main").ContainerID, statusOf(after, "main").ContainerID); diff != "" {
		t.Errorf("the server (-before +after):\n%s", diff)
	}
	a.removePod("pair")
	a.waitGone("pair")
	a.eventually("no probe is left", func(ctx context.Context) error {
		page, err := a.kubelet.Get(ctx, "/probes?output=json")
		if err == nil && string(page) != "[]" {
			err = fmt.Errorf("the page of probes is %s", page)
		}
		return err
	})
}

func TestKilledKubeletTakesNoReadinessBack(t *testing.T) {
	a := startAgent(t)
	a.runPod(newProbedPod("steady"))
	before := a.waitReady("steady")
	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	pid, err := a.CRI().ContainerPID(t.Context(), a.containerID("steady", "main"))
	if err != nil {
		t.Fatal(err)
	}
	binary, err := a.kubeletBinary()
	if err != nil {
		t.Fatal(err)
	}
	if a.kubelet, err = a.LaunchKubelet(binary); err != nil {
		t.Fatal(err)
	}
	known := 0
	for range 100 {
		time.Sleep(50 * time.Millisecond) // the kubelet is watched, not waited for
		now, err := a.kubelet.Pod(t.Context(), podName("steady"))
		if err != nil {
			continue // it is starting, or does not know yet
		}
		known++
		if diff := cmp.Diff(before.Status.Conditions, now.Status.Conditions); diff != "" {
			t.Fatalf("conditions (-before +after the kubelet was killed):\n%s", diff)
		}
		if diff := cmp.Diff(before.Status.ContainerStatuses, now.Status.ContainerStatuses); diff != "" {
			t.Fatalf("containers (-before +after the kubelet was killed):\n%s", diff)
		}
	}
	if known < 20 {
		t.Errorf("the kubelet told of the pod %d times in 5 s, want it soon", known)
	}
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGCONT) })
	a.waitPod("steady", "is unready once its server hangs", func(pod *corev1.Pod) bool {
		return !statusOf(pod, "main").Ready
	})
}
