package main

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunOfOnePodRefuses: what is wrong is named before anything starts.
func TestRunOfOnePodRefuses(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "pod.yaml")
	if err := os.WriteFile(broken, []byte("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {container: []}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"not once", []string{"run", broken}, "--once"},
		{"no pod", []string{"run", "--once"}, "the file of one pod"},
		{"two pods", []string{"run", "--once", broken, broken}, "got 2 arguments"},
		{"missing file", []string{"run", "--once", filepath.Join(dir, "none")}, filepath.Join(dir, "none")},
		{"broken manifest", []string{"run", "--once", broken}, "spec.containers"},
		{"missing configuration", []string{"run", "--once", "--config", filepath.Join(dir, "none"), broken}, filepath.Join(dir, "none")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out, log bytes.Buffer
			err := run(tt.args, &out, &log)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want it to have %q", err, tt.want)
			}
		})
	}
}

// TestRunOfOnePodSaysWhatIsInVain, as the kubelet does.
func TestRunOfOnePodSaysWhatIsInVain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	load := func(text string) (string, error) {
		t.Helper()
		if err := os.WriteFile(file, []byte(head+text), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		_, err := (&onceOptions{config: file}).load(slog.New(slog.NewTextHandler(&log, nil)))
		return log.String(), err
	}
	said, err := load("hairpinMode: none\nfeatureGates: {CPUManagerPolicyAlphaOptions: true}\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"hairpinMode: is not honoured", "featureGates.CPUManagerPolicyAlphaOptions: has no effect"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q: %s", want, said)
		}
	}
	if _, err := load("featureGates: {Warp: true}\n"); err == nil || !strings.Contains(err.Error(), "featureGates.Warp") {
		t.Errorf("a gate that is none: error %v", err)
	}
}

// TestFlagsOfAKubeletAreTaken: what starts kubelets starts this one, and what has no
// effect is logged.
func TestFlagsOfAKubeletAreTaken(t *testing.T) {
	o, err := parse([]string{
		"--v=4", "--runtime-cgroups=/x", "--feature-gates=CPUManagerPolicyAlphaOptions=true,KubeletInUserNamespace=true",
		"--container-runtime-endpoint", "unix:///run/x.sock", "--pod-infra-container-image=pause", "--exit-on-lock-contention",
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	k, problems, err := o.load()
	if err != nil {
		t.Fatal(err)
	}
	if k.ContainerRuntimeEndpoint != "unix:///run/x.sock" || o.level.Level.String() != "DEBUG" {
		t.Errorf("endpoint %q, level %s", k.ContainerRuntimeEndpoint, o.level.Level)
	}
	var log bytes.Buffer
	o.warn(slog.New(slog.NewTextHandler(&log, nil)), problems)
	for _, want := range []string{"--runtime-cgroups", "--pod-infra-container-image", "--exit-on-lock-contention", "featureGates.CPUManagerPolicyAlphaOptions: has no effect"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("nothing says that %s has no effect: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "KubeletInUserNamespace") {
		t.Errorf("a gate that has an effect is reported: %s", log.String())
	}
}
