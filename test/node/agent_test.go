package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience bounds each wait for something that should happen soon.
const patience = time.Minute

// agent is the kubelet of one test on the shared node.
type agent struct {
	*suite
	t       testing.TB
	kubelet *testnode.Kubelet
	// settings are fields of the kubelet's configuration, beside those of the node.
	settings map[string]any
}

// startAgent starts a kubelet for the test. At the test's end it removes all
// manifests, waits until their pods are gone, and ends the kubelet; what is left
// then fails the test and is removed, so that the next one starts clean.
func startAgent(tb testing.TB) *agent {
	tb.Helper()
	return startAgentOn(tb, useNode(tb))
}

// startAgentOn is startAgent on another node.
func startAgentOn(tb testing.TB, s *suite) *agent {
	tb.Helper()
	return startAgentWith(tb, s, nil)
}

// startAgentWith is startAgentOn with fields of the kubelet's configuration.
func startAgentWith(tb testing.TB, s *suite, settings map[string]any) *agent {
	tb.Helper()
	a := &agent{suite: s, t: tb, settings: settings}
	a.start()
	tb.Cleanup(a.end)
	return a
}

// start starts the kubelet, for the first time or after it was ended.
func (a *agent) start() {
	a.t.Helper()
	binary, err := a.kubeletBinary()
	if err != nil {
		a.t.Fatal(err)
	}
	kubelet, err := a.StartKubelet(a.t.Context(), binary, a.settings)
	if err != nil {
		a.t.Fatal(err)
	}
	a.kubelet = kubelet
}

func (a *agent) end() {
	// The test's context has ended by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.t.Context()), 2*time.Minute)
	defer cancel()
	a.removeAll(a.Manifests())
	if !a.kubelet.Exited() {
		err := testnode.Eventually(ctx, patience, "the pods are gone with their manifests", func(ctx context.Context) error {
			return errors.Join(a.wantNoPods(ctx), a.wantNoSandboxes(ctx), a.wantNoRemains())
		})
		if err != nil {
			a.t.Error(err)
		}
		if err := a.kubelet.Terminate(10 * time.Second); err != nil {
			a.t.Error(err)
		}
	}
	if err := a.wantNoSandboxes(ctx); err != nil {
		a.t.Error(err)
		a.removeSandboxes(ctx)
	}
}

func (a *agent) removeAll(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		a.t.Error(err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			a.t.Error(err)
		}
	}
}

func (a *agent) wantNoPods(ctx context.Context) error {
	pods, err := a.kubelet.Pods(ctx)
	if err != nil || len(pods) == 0 {
		return err
	}
	return fmt.Errorf("the kubelet still has %d pods, %s the first", len(pods), pods[0].Name)
}

// ownSandboxes lists the sandboxes that are not a stranger's.
func (a *agent) ownSandboxes(ctx context.Context) ([]*runtimeapi.PodSandbox, error) {
	list, err := a.CRI().Runtime.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.GetItems(), func(sandbox *runtimeapi.PodSandbox) bool {
		return sandbox.GetMetadata().GetNamespace() == testnode.StrangerNamespace
	}), nil
}

func (a *agent) wantNoSandboxes(ctx context.Context) error {
	sandboxes, err := a.ownSandboxes(ctx)
	if err != nil || len(sandboxes) == 0 {
		return err
	}
	return fmt.Errorf("the runtime still has %d sandboxes, the first of pod %s", len(sandboxes), sandboxes[0].GetMetadata().GetName())
}

// wantNoRemains looks for what pods of ours could leave behind: their folders,
// logs and control groups.
func (a *agent) wantNoRemains() error {
	patterns := []string{
		filepath.Join(a.KubeletRoot(), "pods", "*"),
		filepath.Join(a.PodLogs(), "default_*"),
		filepath.Join("/sys/fs/cgroup", a.CgroupRoot(), "kubepods", "pod*"),
		filepath.Join("/sys/fs/cgroup", a.CgroupRoot(), "kubepods", "*", "pod*"),
		filepath.Join("/sys/fs/cgroup", "*", a.CgroupRoot(), "kubepods", "pod*"),
		filepath.Join("/sys/fs/cgroup", "*", a.CgroupRoot(), "kubepods", "*", "pod*"),
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("a pod left %s", strings.Join(found, ", "))
		}
	}
	return nil
}

func (a *agent) removeSandboxes(ctx context.Context) {
	sandboxes, err := a.ownSandboxes(ctx)
	if err != nil {
		a.t.Error(err)
	}
	for _, sandbox := range sandboxes {
		a.removeSandbox(ctx, sandbox.GetId())
	}
}

func (a *agent) removeSandbox(ctx context.Context, id string) {
	_, err1 := a.CRI().Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	_, err2 := a.CRI().Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
	if err := errors.Join(err1, err2); err != nil {
		a.t.Error(err)
	}
}

// newPod returns a pod with one container that lives as the arguments of the
// image life say.
func newPod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: testnode.Life().Ref, Args: args,
		}}},
	}
}

// newWebPod returns a pod that answers its name at port 8080.
func newWebPod(name, app string) *corev1.Pod {
	pod := newPod(name)
	pod.Labels = map[string]string{"app": app}
	pod.Spec.Containers[0].Image = testnode.Web().Ref
	return pod
}

// podName is what the kubelet calls the pod of a manifest.
func podName(name string) string { return name + "-" + testnode.NodeName }

// manifest writes an object to a file of the folder, by rename.
func (a *agent) manifest(dir, file string, object any) {
	a.t.Helper()
	data, err := yaml.Marshal(object)
	if err != nil {
		a.t.Fatal(err)
	}
	a.file(dir, file, data)
}

func (a *agent) file(dir, file string, data []byte) {
	a.t.Helper()
	temporary := filepath.Join(dir, "."+file)
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		a.t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, file)); err != nil {
		a.t.Fatal(err)
	}
}

// runPod writes the pod's manifest.
func (a *agent) runPod(pod *corev1.Pod) {
	a.t.Helper()
	a.manifest(a.Manifests(), pod.Name+".yaml", pod)
}

// removePod removes the pod's manifest.
func (a *agent) removePod(name string) {
	a.t.Helper()
	if err := os.Remove(filepath.Join(a.Manifests(), name+".yaml")); err != nil {
		a.t.Fatal(err)
	}
}

// eventually fails the test when the check does not hold in time.
func (a *agent) eventually(what string, check func(context.Context) error) {
	a.t.Helper()
	if err := testnode.Eventually(a.t.Context(), patience, what, check); err != nil {
		a.t.Fatal(err)
	}
}

// waitPod waits until the pod of the manifest satisfies the check and returns it.
func (a *agent) waitPod(name, what string, check func(*corev1.Pod) bool) *corev1.Pod {
	a.t.Helper()
	var pod *corev1.Pod
	a.eventually(podName(name)+" "+what, func(ctx context.Context) error {
		var err error
		if pod, err = a.kubelet.Pod(ctx, podName(name)); err == nil && !check(pod) {
			status, _ := yaml.Marshal(pod.Status) // Only for the message.
			err = fmt.Errorf("its status is:\n%s", status)
		}
		return err
	})
	return pod
}

// waitReady waits until the pod of the manifest is ready and returns it.
func (a *agent) waitReady(name string) *corev1.Pod {
	a.t.Helper()
	return a.waitPod(name, "is ready", func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions,
			func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			})
	})
}

// waitGone waits until neither the kubelet nor the runtime has the pod.
func (a *agent) waitGone(name string) {
	a.t.Helper()
	a.eventually(podName(name)+" is gone", func(ctx context.Context) error {
		if _, err := a.kubelet.Pod(ctx, podName(name)); err == nil {
			return errors.New("the kubelet still has it")
		}
		sandboxes, err := a.ownSandboxes(ctx)
		if err != nil {
			return err
		}
		for _, sandbox := range sandboxes {
			if sandbox.GetMetadata().GetName() == podName(name) {
				return errors.New("the runtime still has it")
			}
		}
		return nil
	})
}

// instance is a container that runs, by the runtime's word.
type instance struct {
	ID      string
	PID     int
	Started int64
}

// instances returns the running containers by the name of their pod.
func (a *agent) instances() map[string]instance {
	a.t.Helper()
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	list, err := a.CRI().Runtime.ListContainers(a.t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{State: running},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	found := map[string]instance{}
	for _, container := range list.GetContainers() {
		status, err := a.CRI().ContainerStatus(a.t.Context(), container.GetId())
		if err != nil {
			a.t.Fatal(err)
		}
		pid, err := a.CRI().ContainerPID(a.t.Context(), container.GetId())
		if err != nil {
			a.t.Fatal(err)
		}
		found[container.GetLabels()["io.kubernetes.pod.name"]] = instance{container.GetId(), pid, status.GetStartedAt()}
	}
	return found
}

// containerID returns the id of a running container of a pod.
func (a *agent) containerID(pod, container string) string {
	a.t.Helper()
	list, err := a.CRI().Runtime.ListContainers(a.t.Context(), &runtimeapi.ListContainersRequest{
		Filter: &runtimeapi.ContainerFilter{
			State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
			LabelSelector: map[string]string{
				"io.kubernetes.pod.name": podName(pod), "io.kubernetes.container.name": container,
			},
		},
	})
	if err != nil || len(list.GetContainers()) != 1 {
		a.t.Fatalf("containers %s of pod %s that run: %v, %v", container, podName(pod), list.GetContainers(), err)
	}
	return list.GetContainers()[0].GetId()
}

// exec runs a command in a container and returns what it printed.
func (a *agent) exec(ctx context.Context, id string, command ...string) (string, error) {
	answer, err := a.CRI().Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: 10})
	if err != nil {
		return "", err
	}
	if answer.GetExitCode() != 0 {
		return "", fmt.Errorf("%v ended with %d: %s%s", command, answer.GetExitCode(), answer.GetStdout(), answer.GetStderr())
	}
	return string(answer.GetStdout()), nil
}
