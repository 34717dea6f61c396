package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/allocatable/config"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want int
		said string
	}{
		{name: "fine"},
		{name: "pod", err: exitError(42), want: 42},
		{name: "command line", err: usageError{errors.New("unknown flag")}, want: 2, said: "kubelet: unknown flag\n"},
		{name: "all else", err: errors.New("address in use"), want: 1, said: "kubelet: address in use\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if got := exit(tt.err, &out); got != tt.want || out.String() != tt.said {
				t.Errorf("exit code %d, said %q; want %d, %q", got, &out, tt.want, tt.said)
			}
		})
	}
}

// TestNothingToDo: the bare command starts nothing.
func TestNothingToDo(t *testing.T) {
	var out bytes.Buffer
	err := run(nil, &out, &out)
	if _, ok := errors.AsType[usageError](err); !ok || !strings.Contains(err.Error(), "--config") {
		t.Errorf("error is %v, want one of the command line that names --config", err)
	}
}

// TestValidateConfig names all that is wrong, with files and lines, and says by its code
// whether a kubelet would start.
func TestValidateConfig(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubelet.yaml")
	dropIn := filepath.Join(dir, "d", "10.conf")
	if err := os.Mkdir(filepath.Dir(dropIn), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{
		file:   head + "maxPods: 5\nhealtzPort: 1\nhairpinMode: none\nfeatureGates: {Warp: true}\n",
		dropIn: head + "podsPerCore: -1\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	validate := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := run(append([]string{"--validate-config"}, args...), &out, &bytes.Buffer{})
		return out.String(), err
	}
	got, err := validate("--config", file, "--config-dir", filepath.Dir(dropIn), "--registry-burst=-1", "--pod-infra-container-image=pause", "--node-labels=a=b c")
	if !errors.Is(err, errInvalid) {
		t.Errorf("error is %v, want %v", err, errInvalid)
	}
	for _, want := range []string{
		"error: " + file + ": line 4: healtzPort: unknown field",
		"warning: " + file + ": line 5: hairpinMode: is not honoured",
		"error: featureGates.Warp: no feature gate has this name",
		"error: " + dropIn + ": line 3: podsPerCore: is -1",
		"error: --registry-burst: registryBurst: is -1",
		"warning: --pod-infra-container-image: has no effect",
		"error: --node-labels: label a=b c",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q:\n%s", want, got)
		}
	}
	if err := os.WriteFile(file, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	for flag, want := range map[string]string{
		"--deny-probe-hosts=foo": "--deny-probe-hosts", "--log-format=xml": `"xml"`, "--pod-store-seal=tpm": "--pod-store-seal", "--node-ip=127.0.0.1": "loopback",
	} {
		if got, err := validate("--config", file, flag); !errors.Is(err, errInvalid) || !strings.Contains(got, want) {
			t.Errorf("%s: %q, %v", flag, got, err)
		}
	}
	if got, err := validate("--config", file); err != nil || got != "the configuration is valid\n" {
		t.Errorf("a valid configuration: %q, %v", got, err)
	}
}

// TestPrintDefaults: what is printed is a configuration file, and has the defaults.
func TestPrintDefaults(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--print-defaults"}, &out, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	got, problems, err := config.Load(out.Bytes(), config.AllFields())
	if err := errors.Join(err, config.Err(problems)); err != nil {
		t.Fatal(err)
	}
	want := &kubeletconfig.KubeletConfiguration{}
	want.APIVersion, want.Kind = config.APIVersion, config.Kind
	config.SetDefaults(want)
	if diff := cmp.Diff(text(t, want), text(t, got)); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func text(t *testing.T, k *kubeletconfig.KubeletConfiguration) string {
	t.Helper()
	data, err := yaml.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestLogOfTheConfiguration: flags win over the file, whose format and verbosity count.
func TestLogOfTheConfiguration(t *testing.T) {
	for name, tt := range map[string]struct {
		config string
		args   []string
		want   string
	}{
		"default":               {want: "level=INFO"},
		"format of the file":    {config: "logging: {format: json}", want: `"level":"INFO"`},
		"twin":                  {args: []string{"--logging-format=json"}, want: `"level":"INFO"`},
		"flag over both":        {config: "logging: {format: json}", args: []string{"--log-format=text"}, want: "level=INFO"},
		"verbosity of the file": {config: "logging: {verbosity: 5}", want: "level=DEBUG"},
		"flag over it":          {config: "logging: {verbosity: 5}", args: []string{"-v=2"}, want: "level=INFO"},
		"long flag over it":     {config: "logging: {verbosity: 5}", args: []string{"--v=2"}, want: "level=INFO"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "kubelet.yaml")
			if err := os.WriteFile(file, []byte(head+tt.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			o, err := parse(append([]string{"--config", file}, tt.args...), &out)
			if err != nil {
				t.Fatal(err)
			}
			k, _, err := o.load()
			if err != nil {
				t.Fatal(err)
			}
			log, err := o.logger(&out, k)
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("detail")
			log.Info("fact")
			first, _, _ := strings.Cut(out.String(), "\n")
			if !strings.Contains(first, tt.want) {
				t.Errorf("the log begins with %q, want %s in it", first, tt.want)
			}
			if err := o.setVerbosity("4"); err != nil {
				t.Fatal(err)
			}
			log.Debug("seen from now on")
			if !strings.Contains(out.String(), "seen from now on") {
				t.Error("the level was not changed while it runs")
			}
			if err := o.setVerbosity("loud"); err == nil {
				t.Error("the level loud was taken")
			}
		})
	}
}

// TestConfigurationIsLogged: with what drop-ins say, and without what only the node knows.
func TestConfigurationIsLogged(t *testing.T) {
	var out bytes.Buffer
	k := &kubeletconfig.KubeletConfiguration{
		EventBurst:         101,
		StaticPodURLHeader: map[string][]string{"Authorization": {"Bearer secret"}},
	}
	logConfiguration(slog.New(slog.NewTextHandler(&out, nil)), k)
	for _, want := range []string{"Effective KubeletConfiguration", "kind: KubeletConfiguration", "eventBurst: 101", "<masked>"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("the log has the value of a header:\n%s", out.String())
	}
	if got := k.StaticPodURLHeader["Authorization"][0]; got != "Bearer secret" {
		t.Errorf("the header has become %q", got)
	}
}

// TestHelpIsGrouped: each flag that is shown stands below a heading, once.
func TestHelpIsGrouped(t *testing.T) {
	var out bytes.Buffer
	if err := run([]string{"--help"}, &bytes.Buffer{}, &out); err != nil {
		t.Fatal(err)
	}
	help := out.String()
	for _, want := range []string{"Usage:", "\nConfiguration:\n", "\nCluster:\n", "\nThe Node:\n", "\nLog:\n", "Exit codes: 0 "} {
		if strings.Count(help, want) != 1 {
			t.Errorf("help has %q %d times, want once", want, strings.Count(help, want))
		}
	}
	if strings.Contains(help, "--pod-infra-container-image") {
		t.Error("help shows a flag without effect")
	}
}

// TestBashCompletes asks a real bash.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("there is no bash")
	}
	var script bytes.Buffer
	if err := run([]string{"completion", "bash"}, &script, &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kubelet.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "kubelet.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ words, want string }{
		"commands":     {words: `kubelet r`, want: "run"},
		"flags":        {words: `kubelet --hostname-o`, want: "--hostname-override"},
		"files":        {words: `kubelet --config kube`, want: "kubelet.d kubelet.yaml"},
		"after equals": {words: `kubelet --config = kube`, want: "kubelet.d kubelet.yaml"},
		"directories":  {words: `kubelet --config-dir kube`, want: "kubelet.d"},
		"values":       {words: `kubelet --log-format j`, want: "json"},
		"of a command": {words: `kubelet run --onc`, want: "--once"},
		"shells":       {words: `kubelet completion f`, want: "fish"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), bash, "--norc", "-c", script.String()+"\nCOMP_WORDS=("+tt.words+")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n_kubelet\necho ${COMPREPLY[@]} | tr ' ' '\\n' | sort | paste -sd' '\n")
			cmd.Dir = dir
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(string(out)); got != tt.want {
				t.Errorf("%s completes to %q, want %q", tt.words, got, tt.want)
			}
		})
	}
}

// TestOtherShells: every flag is in their scripts, and a shell that is here reads its own.
func TestOtherShells(t *testing.T) {
	for shell, flag := range map[string]string{"zsh": "--config-dir=", "fish": "-l config-dir "} {
		var script bytes.Buffer
		if err := run([]string{"completion", shell}, &script, &bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(script.String(), flag) {
			t.Errorf("the script for %s has no %q", shell, flag)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		file := filepath.Join(t.TempDir(), "script")
		if err := os.WriteFile(file, script.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.CommandContext(t.Context(), path, "-n", file).CombinedOutput(); err != nil {
			t.Errorf("%s does not read its script: %v\n%s", shell, err, out)
		}
	}
	if err := run([]string{"completion", "tcsh"}, &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "tcsh") {
		t.Errorf("error for tcsh is %v", err)
	}
}
