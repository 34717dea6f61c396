package node_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestOnePodIsRunOnce runs a pod beside a kubelet that knows nothing of it.
func TestOnePodIsRunOnce(t *testing.T) {
	a := startAgent(t)
	a.runPod(newPod("other"))
	a.waitReady("other")
	before, err := a.running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	binary, err := a.kubeletBinary()
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod("job", "-count", "3", "-for", "500ms", "-exit", "7")
	pod.Spec.RestartPolicy = corev1.RestartPolicyNever
	dir := t.TempDir()
	for name, object := range map[string]any{"pod.yaml": pod, "config.yaml": map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + a.Socket(), "cgroupRoot": a.CgroupRoot(),
	}} {
		data, err := yaml.Marshal(object)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := a.Command(t.Context(), binary, "run", "--once", "--config", filepath.Join(dir, "config.yaml"), filepath.Join(dir, "pod.yaml"))
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err = cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
		t.Errorf("it ended with %v, want exit code 7: %s", err, &log)
	}
	if !strings.Contains(out.String(), "line 3") {
		t.Errorf("it printed %q", &out)
	}
	after, err := a.running(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name := range before {
		if after[name] != before[name] {
			t.Errorf("%s runs no more", name)
		}
	}
	sandboxes, err := a.ownSandboxes(t.Context())
	if err != nil || len(sandboxes) != 1 {
		t.Errorf("there are %d sandboxes, %v, want that of the other pod", len(sandboxes), err)
	}
}
