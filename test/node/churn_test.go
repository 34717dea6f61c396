package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// long reports whether the tests may take long, as `make test-long` says.
func long() bool { return os.Getenv("NODEKIT_LONG") == "1" }

// running returns when each container that runs was created, by "pod/container id".
func (a *agent) running(ctx context.Context) (map[string]int64, error) {
	list, err := a.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	found := map[string]int64{}
	for _, c := range list.GetContainers() {
		labels := c.GetLabels()
		found[labels["io.kubernetes.pod.name"]+"/"+labels["io.kubernetes.container.name"]+" "+c.GetId()] = c.GetCreatedAt()
	}
	return found, err
}

// only returns the entries of pods whose names begin like this.
func only(all map[string]int64, prefix string) map[string]int64 {
	some := map[string]int64{}
	for name, at := range all {
		if strings.HasPrefix(name, prefix) {
			some[name] = at
		}
	}
	return some
}

// manyKinds returns pods whose names begin with prefix: of one container, of several,
// with init containers, with sidecars.
func manyKinds(prefix string, count int) []*corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	var pods []*corev1.Pod
	for i := range count {
		pod := newPod(fmt.Sprintf("%s-%d", prefix, i))
		pod.Spec.TerminationGracePeriodSeconds = new(int64(2))
		switch i % 4 {
		case 1:
			pod.Spec.Containers = append(pod.Spec.Containers, another("beside"))
		case 2:
			pod.Spec.InitContainers = []corev1.Container{another("init", "-for", "10ms")}
		case 3:
			side := another("side")
			side.RestartPolicy = &always
			pod.Spec.InitContainers = []corev1.Container{another("init", "-for", "10ms"), side}
		}
		pods = append(pods, pod)
	}
	return pods
}

// TestKubeletKilledUnderChurn kills the kubelet at random moments while manifests come,
// change and go. What is not touched goes on running as it was, and in the end nothing is
// left.
func TestKubeletKilledUnderChurn(t *testing.T) {
	rounds := 5
	if long() {
		rounds = 25
	}
	a := startAgent(t)
	steady := manyKinds("steady", 4)
	for _, pod := range steady {
		a.runPod(pod)
	}
	for _, pod := range steady {
		a.waitReady(pod.Name)
	}
	all, err := a.running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := only(all, "steady-")
	if err := a.kubelet.Kill(); err != nil {
		t.Fatal(err)
	}
	wanted := map[string]*corev1.Pod{}
	for range rounds {
		a.churn(wanted)
		a.killAtRandom(1, 3*time.Second)
		all, err := a.running(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, only(all, "steady-")); diff != "" {
			t.Fatalf("containers that nothing happened to (-before +after):\n%s", diff)
		}
	}
	a.start()
	for name := range wanted {
		a.waitReady(name)
	}
	a.eventually("there is one ready sandbox of each pod", func(ctx context.Context) error {
		sandboxes, err := a.ownSandboxes(ctx)
		if want := len(steady) + len(wanted); err == nil && len(sandboxes) != want {
			err = fmt.Errorf("there are %d sandboxes of %d pods", len(sandboxes), want)
		}
		return err
	})
	if all, err = a.running(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, only(all, "steady-")); diff != "" {
		t.Errorf("containers that nothing happened to (-before +after):\n%s", diff)
	}
	a.removeAll(a.Manifests())
	a.eventually("the pods are gone", a.wantNoPods)
	// containerd 1.6 cannot remove a container whose start was cut off with its caller,
	// until it is restarted.
	if err := a.KillContainerd(); err != nil {
		t.Fatal(err)
	}
	if err := a.StartContainerd(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.eventually("nothing is left", func(ctx context.Context) error {
		return errors.Join(a.wantNoPods(ctx), a.wantNoSandboxes(ctx), a.wantNoRemains(), a.wantNoMounts())
	})
}

// churn adds, changes or removes some pods.
func (a *agent) churn(wanted map[string]*corev1.Pod) {
	a.t.Helper()
	for _, pod := range manyKinds("churn", 6) {
		_, there := wanted[pod.Name]
		switch rand.IntN(3) {
		case 0:
			if there {
				a.removePod(pod.Name)
				delete(wanted, pod.Name)
			}
		case 1:
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: fmt.Sprint(rand.IntN(1000))}}
			a.runPod(pod)
			wanted[pod.Name] = pod
		}
	}
}

// wantNoMounts looks for mounts that pods have left below the kubelet's folder.
func (a *agent) wantNoMounts() error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, " "+filepath.Join(a.KubeletRoot(), "pods")+"/") {
			return errors.New("a mount is left: " + line)
		}
	}
	return nil
}
