package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

// TestRunRefuses: what is wrong is named before anything starts.
func TestRunRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	broken := file("broken.yaml", head+"staticPodPath: /manifests\nhealtzPort: 1\nfileCheckFrequency: -1s\n")
	good := file("good.yaml", head)
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	dropIn := file("d/10.conf", head+"podsPerCore: -1\n")
	tests := []struct {
		name string
		args []string
		want []string
	}{
		{name: "unknown flag", args: []string{"--config", good, "--no-such-flag", "x"}, want: []string{"unknown flag: --no-such-flag"}},
		{name: "missing kubeconfig", args: []string{"--config", good, "--kubeconfig", filepath.Join(dir, "none")}, want: []string{"--kubeconfig", filepath.Join(dir, "none")}},
		{name: "what a Node cannot have", args: []string{
			"--config", good, "--node-ip", "10.0.0.1,10.0.0.2", "--node-labels", "a=b c,node-role.kubernetes.io/x=", "--cloud-provider", "none",
		}, want: []string{"--node-ip: ", "--node-labels: label a=b c: ", "kubelets may not set it", `--cloud-provider: "none"`}},
		{name: "taint", args: []string{"--config", good, "--register-with-taints", "a=b"}, want: []string{"--register-with-taints", `taint "a=b" has no effect`}},
		{name: "argument", args: []string{"--config", good, "extra"}, want: []string{`unexpected argument "extra"`}},
		{name: "level", args: []string{"--config", good, "-v", "loud"}, want: []string{"--log-level", "loud"}},
		{name: "format", args: []string{"--config", good, "--log-format", "xml"}, want: []string{"--log-format", "xml", "text or json"}},
		{name: "missing file", args: []string{"--config", filepath.Join(dir, "none")}, want: []string{filepath.Join(dir, "none")}},
		{name: "problems with lines", args: []string{"--config", broken}, want: []string{broken, "line 4: healtzPort: unknown field", "line 5: fileCheckFrequency"}},
		{name: "problem of a flag", args: []string{"--config", good, "--max-pods=-1"}, want: []string{"--max-pods: maxPods: is -1"}},
		{name: "no value of its type", args: []string{"--max-pods=many"}, want: []string{"--max-pods", "many"}},
		{name: "unknown gate", args: []string{"--feature-gates=Warp=true"}, want: []string{"featureGates.Warp: no feature gate has this name"}},
		{name: "locked gate", args: []string{"--feature-gates=CPUManagerPolicyOptions=false"}, want: []string{"featureGates.CPUManagerPolicyOptions: cannot be false"}},
		{name: "mode of old", args: []string{"--runonce"}, want: []string{"--runonce: runOnce: "}},
		{name: "problems of a drop-in", args: []string{"--config", good, "--config-dir", filepath.Dir(dropIn)}, want: []string{dropIn, "line 3: podsPerCore: is -1"}},
		{name: "missing drop-ins", args: []string{"--config", good, "--config-dir", filepath.Join(dir, "none")}, want: []string{"drop-ins", filepath.Join(dir, "none")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, log bytes.Buffer
			err := run(append(tt.args, "--root-dir", filepath.Join(dir, "root")), &out, &log)
			if err == nil {
				t.Fatal("run returned nil, want an error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want it to have %q", err, want)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, "root")); err == nil {
				t.Error("the root directory was made")
			}
		})
	}
}

// TestVersionIsOneKubernetesTakes: semantic version with build metadata.
func TestVersionIsOneKubernetesTakes(t *testing.T) {
	var out, log bytes.Buffer
	if err := run([]string{"--version"}, &out, &log); err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`^Kubernetes v1\.37\.2\+nodekit\.[0-9A-Za-z.-]+\n$`); !want.MatchString(out.String()) {
		t.Errorf("version is %q, want %s", &out, want)
	}
}

// TestHelpNamesEveryFlag prints to where errors go, and is no error.
func TestHelpNamesEveryFlag(t *testing.T) {
	var out, log bytes.Buffer
	if err := run([]string{"--help"}, &out, &log); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"config", "config-dir", "hostname-override", "root-dir", "version", "take-over", "log-level", "log-format"} {
		if !strings.Contains(log.String(), "--"+flag) {
			t.Errorf("help has no --%s:\n%s", flag, &log)
		}
	}
}
