package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// killAtRandom starts the kubelet and kills it after a moment of at most limit,
// rounds times.
func (a *agent) killAtRandom(rounds int, limit time.Duration) {
	a.t.Helper()
	binary, err := a.kubeletBinary()
	if err != nil {
		a.t.Fatal(err)
	}
	for range rounds {
		kubelet, err := a.LaunchKubelet(binary)
		if err != nil {
			a.t.Fatal(err)
		}
		moment := rand.N(limit)
		select {
		case <-time.After(moment):
		case <-a.t.Context().Done():
		}
		if kubelet.Exited() {
			a.t.Fatalf("the kubelet ended by itself within %s (log: %s)", moment, kubelet.Log)
		}
		if err := kubelet.Kill(); err != nil {
			a.t.Fatal(err)
		}
		a.t.Log("killed after", moment)
	}
}

func TestKubeletKilledAtRandomStartsEachPodOnce(t *testing.T) {
	a := startAgent(t)
	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	names := []string{"p0", "p1", "p2", "p3", "p4"}
	for _, name := range names {
		a.runPod(newPod(name))
	}
	seen := map[string]instance{}
	for range 4 {
		a.killAtRandom(2, 900*time.Millisecond)
		// What once ran must be what runs from then on.
		now := a.instances()
		for pod, before := range seen {
			if diff := cmp.Diff(before, now[pod]); diff != "" {
				t.Errorf("container of %s (-before +after):\n%s", pod, diff)
			}
		}
		seen = now
		t.Logf("%d of %d pods run", len(now), len(names))
	}
	a.start()
	began := time.Now()
	for _, name := range names {
		// The restart count may be 1: containerd gives up a start whose caller died,
		// and says that the container failed.
		a.waitReady(name)
	}
	t.Log("all pods were ready after", time.Since(began))
	now := a.instances()
	for pod, before := range seen {
		if diff := cmp.Diff(before, now[pod]); diff != "" {
			t.Errorf("container of %s (-before +after):\n%s", pod, diff)
		}
	}
	a.eventually("each pod has one sandbox", func(ctx context.Context) error {
		sandboxes, err := a.ownSandboxes(ctx)
		if err == nil && len(sandboxes) != len(names) {
			err = fmt.Errorf("there are %d sandboxes of %d pods", len(sandboxes), len(names))
		}
		return err
	})

	for _, name := range names {
		a.removePod(name)
	}
	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	a.killAtRandom(6, 600*time.Millisecond)
	a.start() // The end of every test checks that nothing is left.
}

func TestContainerdKilledUnderTheKubelet(t *testing.T) {
	a := startAgent(t)
	a.runPod(newPod("steady"))
	a.runPod(newPod("dies"))
	a.waitReady("steady")
	a.waitReady("dies")
	before := a.instances()
	if err := a.KillContainerd(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(before[podName("dies")].PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.runPod(newPod("late"))
	if err := a.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.waitReady("late")
	a.waitPod("dies", "was started again", func(pod *corev1.Pod) bool {
		status := pod.Status.ContainerStatuses[0]
		return status.RestartCount == 1 && status.State.Running != nil
	})
	a.waitReady("steady")
	if diff := cmp.Diff(before[podName("steady")], a.instances()[podName("steady")]); diff != "" {
		t.Errorf("the container of the pod that nothing happened to (-before +after):\n%s", diff)
	}
}

func TestChangedManifestReplacesThePodOnce(t *testing.T) {
	a := startAgent(t)
	pod := newPod("changes", "-print-env")
	pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: "1"}}
	a.runPod(pod)
	first := a.waitReady("changes")
	pod.Spec.Containers[0].Env[0].Value = "2"
	a.runPod(pod)
	var second *corev1.Pod
	a.eventually("the new pod runs", func(ctx context.Context) error {
		if err := a.wantOneReadySandbox(ctx, "changes"); err != nil {
			t.Error(err)
		}
		var err error
		if second, err = a.kubelet.Pod(ctx, podName("changes")); err != nil {
			return err
		}
		log, err := a.readLog(second, 0)
		if err == nil && !slices.Contains(log, "env VERSION=2") {
			err = fmt.Errorf("its log is %q", log)
		}
		return err
	})
	if first.UID == second.UID {
		t.Errorf("both pods have the UID %s", first.UID)
	}
	a.waitReady("changes")
}

// wantOneReadySandbox returns an error when a pod has two sandboxes that are ready
// at the same time.
func (a *agent) wantOneReadySandbox(ctx context.Context, name string) error {
	sandboxes, err := a.ownSandboxes(ctx)
	if err != nil {
		return err
	}
	var ready int
	for _, sandbox := range sandboxes {
		if sandbox.GetMetadata().GetName() == podName(name) && sandbox.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			ready++
		}
	}
	if ready > 1 {
		return fmt.Errorf("%s has %d sandboxes that are ready", name, ready)
	}
	return nil
}

func TestManifestThatReturnsWhileItsPodEnds(t *testing.T) {
	a := startAgent(t)
	dir, volume := a.hostFolder("returns")
	grace := int64(2)
	pod := newPod("returns", "-ignore-term", "-journal", "/out/journal")
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Volumes = []corev1.Volume{volume}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: volume.Name, MountPath: "/out"}}
	a.runPod(pod)
	a.waitReady("returns")
	before := a.instances()[podName("returns")]
	a.removePod("returns")
	a.eventually("the container is asked to end", func(context.Context) error {
		if events, _ := a.journal(dir + "/journal"); !slices.Contains(events, "signal terminated") {
			return fmt.Errorf("its journal is %q", events)
		}
		return nil
	})
	a.runPod(pod)
	a.eventually("a new container runs", func(ctx context.Context) error {
		if err := a.wantOneReadySandbox(ctx, "returns"); err != nil {
			t.Error(err)
		}
		now := a.instances()[podName("returns")]
		if now.ID == before.ID || now.ID == "" {
			return errors.New("not yet")
		}
		return nil
	})
	a.waitReady("returns")
}

func TestPodsOnTheNodesNetwork(t *testing.T) {
	a := startAgent(t)
	host := newWebPod("host", "host")
	host.Spec.HostNetwork = true
	host.Spec.Containers[0].Args = []string{"-port", "9090"}
	mapped := newWebPod("mapped", "mapped")
	mapped.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 8080, HostPort: 9191}}
	a.runPod(host)
	a.runPod(mapped)
	pod := a.waitReady("host")
	a.waitReady("mapped")
	if pod.Status.PodIP != pod.Status.HostIP || pod.Status.PodIP == "" {
		t.Errorf("the address of a pod on the node's network is %q, the node's is %q", pod.Status.PodIP, pod.Status.HostIP)
	}
	// A pod on the node's network has the node's name, or here, the host's.
	a.eventually("the pod on the node's network answers", func(ctx context.Context) error {
		_, err := a.Get(ctx, "http://"+pod.Status.HostIP+":9090")
		return err
	})
	a.waitAnswers(a.fromNode, "http://"+pod.Status.HostIP+":9191", "mapped")
}

func TestContainerThatDiesWhileTheKubeletIsDead(t *testing.T) {
	a := startAgent(t)
	a.runPod(newPod("dies"))
	a.runPod(newPod("steady"))
	a.waitReady("dies")
	a.waitReady("steady")
	before := a.instances()
	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(before[podName("dies")].PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	a.start()
	a.waitPod("dies", "was started again", func(pod *corev1.Pod) bool {
		statuses := pod.Status.ContainerStatuses
		return len(statuses) == 1 && statuses[0].RestartCount == 1 && statuses[0].State.Running != nil
	})
	a.waitReady("steady")
	if diff := cmp.Diff(before[podName("steady")], a.instances()[podName("steady")]); diff != "" {
		t.Errorf("the container of the pod that nothing happened to (-before +after):\n%s", diff)
	}
}

func TestKubeletStopsWhileAPodEnds(t *testing.T) {
	a := startAgent(t)
	dir, volume := a.hostFolder("ends")
	grace := int64(8)
	pod := newPod("ends", "-ignore-term", "-journal", "/out/journal")
	pod.Spec.TerminationGracePeriodSeconds = &grace
	pod.Spec.Volumes = []corev1.Volume{volume}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: volume.Name, MountPath: "/out"}}
	a.runPod(pod)
	a.waitReady("ends")
	before := a.instances()[podName("ends")]
	a.removePod("ends")
	var asked time.Time
	a.eventually("the container is asked to end", func(context.Context) error {
		if _, asked = a.journal(dir + "/journal"); asked.IsZero() {
			return errors.New("not yet")
		}
		return nil
	})
	if err := a.kubelet.Terminate(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if errors.Is(unix.Kill(before.PID, 0), unix.ESRCH) {
		t.Errorf("the container ended %s after it was asked, with its kubelet", time.Since(asked))
	}
	a.start()
	a.eventually("the container ends", func(context.Context) error {
		if errors.Is(unix.Kill(before.PID, 0), unix.ESRCH) {
			return nil
		}
		return errors.New("it still runs")
	})
	t.Logf("the container ended %s after it was asked; its grace period is %d s", time.Since(asked).Round(time.Millisecond), grace)
	a.waitGone("ends")
}
