package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

// honoured is what a small standalone kubelet acts on.
func honoured() []string {
	return []string{
		"containerRuntimeEndpoint", "staticPodPath", "podLogsDir", "cgroupRoot", "healthzPort", "healthzBindAddress",
		"fileCheckFrequency", "authentication.x509.clientCAFile",
	}
}

const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func TestLoadReportsWhatIsInVain(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string
	}{
		{name: "nothing set", text: head},
		{name: "honoured", text: head + "staticPodPath: /etc/kubernetes/manifests\nhealthzPort: 0\nfileCheckFrequency: 5s\n"},
		{
			name: "unknown with a hint", text: head + "healtzPort: 10248\nfoo: 1\n",
			want: []string{
				`error line 3: healtzPort: unknown field; did you mean "healthzPort"?`,
				"error line 4: foo: unknown field",
			},
		},
		{
			name: "unknown inside a struct", text: head + "authentication:\n  x509:\n    clientCaFile: /ca\n",
			want: []string{`error line 5: authentication.x509.clientCaFile: unknown field; did you mean "clientCAFile"?`},
		},
		{
			name: "twice", text: head + "healthzPort: 1\nhealthzPort: 2\n",
			want: []string{"error line 4: healthzPort: set twice, first on line 3; the last one counts"},
		},
		{
			name: "not honoured", text: head + "evictionHard: {memory.available: 100Mi}\nseccompDefault: true\n",
			want: []string{
				"warning line 3: evictionHard: is not honoured: pods are not evicted and images not collected by it",
				"warning line 3: evictionHard: switches the defaults of imagefs.available, imagefs.inodesFree, nodefs.available, " +
					"nodefs.inodesFree off; mergeDefaultEvictionSettings: true keeps them",
				"warning line 4: seccompDefault: is not honoured: pods are not confined by it",
			},
		},
		{
			name: "partly honoured struct", text: head + "authentication:\n  x509: {clientCAFile: /ca}\n  anonymous:\n    enabled: false\n",
			want: []string{"warning line 5: authentication.anonymous: is not honoured: no server is protected by it"},
		},
		{name: "zero is no setting", text: head + "readOnlyPort: 0\nstaticPodURL: \"\"\nmemorySwap: {}\nsyncFrequency: 0s\nlogging: {flushFrequency: 0}\n"},
		{
			name: "explicit false is a setting", text: head + "failSwapOn: false\n",
			want: []string{"warning line 3: failSwapOn: is not honoured: cgroups, reservations and quotas stay as the runtime makes them"},
		},
		{
			name: "values", text: head + "healthzPort: 70000\nhealthzBindAddress: localhost\nstaticPodPath: manifests\ncontainerRuntimeEndpoint: run/c.sock\nfileCheckFrequency: -1s\n",
			want: []string{
				"error line 3: healthzPort: is 70000, must be between 0 and 65535",
				`error line 4: healthzBindAddress: is "localhost", must be an IP address`,
				`error line 5: staticPodPath: is "manifests", must be an absolute path`,
				`error line 6: containerRuntimeEndpoint: is "run/c.sock", must be a socket like unix:///run/containerd/containerd.sock`,
				"error line 7: fileCheckFrequency: is -1s, must be positive",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems, err := Load([]byte(tt.text), honoured())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			failed := false
			for _, p := range problems {
				got = append(got, p.Severity.String()+" "+p.String())
				failed = failed || p.Severity == Error
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if (Err(problems) != nil) != failed {
				t.Errorf("Err = %v", Err(problems))
			}
		})
	}
}

func TestFileOfAClusterInstallerHasNoErrors(t *testing.T) {
	// Installers print every field, most of them empty.
	const text = head + `authentication:
  anonymous: {enabled: false}
  webhook: {cacheTTL: 0s, enabled: true}
  x509: {clientCAFile: /etc/kubernetes/pki/ca.crt}
authorization:
  mode: Webhook
  webhook: {cacheAuthorizedTTL: 0s, cacheUnauthorizedTTL: 0s}
cgroupDriver: systemd
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
containerRuntimeEndpoint: ""
cpuManagerReconcilePeriod: 0s
crashLoopBackOff: {}
evictionPressureTransitionPeriod: 0s
fileCheckFrequency: 0s
healthzBindAddress: 127.0.0.1
healthzPort: 10248
httpCheckFrequency: 0s
imageMaximumGCAge: 0s
imageMinimumGCAge: 0s
logging:
  flushFrequency: 0
  options: {json: {infoBufferSize: "0"}, text: {infoBufferSize: "0"}}
  verbosity: 0
memorySwap: {}
nodeStatusReportFrequency: 0s
nodeStatusUpdateFrequency: 0s
rotateCertificates: true
runtimeRequestTimeout: 0s
shutdownGracePeriod: 0s
staticPodPath: /etc/kubernetes/manifests
streamingConnectionIdleTimeout: 0s
syncFrequency: 0s
volumeStatsAggPeriod: 0s
`
	cfg, problems, err := Load([]byte(text), honoured())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Severity.String()+" "+p.Field)
	}
	want := []string{
		"warning authentication.anonymous", "warning authentication.webhook", "warning authorization", "warning cgroupDriver",
		"warning clusterDNS", "warning clusterDomain", "warning rotateCertificates",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if cfg.ContainerRuntimeEndpoint == "" || cfg.FileCheckFrequency.Duration == 0 {
		t.Error("empty fields did not get their defaults")
	}
}

func TestLoadRefuses(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{name: "empty", text: "# nothing\n", want: "is empty; it must begin with apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"},
		{name: "no YAML", text: head + "a: b: c\n", want: "not YAML or JSON: line 3: mapping values are not allowed in this context"},
		{name: "no kind", text: "healthzPort: 1\n", want: `line 1: kind is ""; write kind: KubeletConfiguration`},
		{name: "wrong kind", text: "apiVersion: v1\nkind: Pod\n", want: `line 2: kind is "Pod"; write kind: KubeletConfiguration`},
		{name: "wrong version", text: strings.Replace(head, "v1beta1", "v1", 1), want: `line 1: apiVersion is "kubelet.config.k8s.io/v1"; write apiVersion: kubelet.config.k8s.io/v1beta1`},
		{name: "two documents", text: head + "---\n" + head, want: "line 4: a second document; write one configuration in one file"},
		{name: "a list", text: "[1]\n", want: "line 1: not an object; it must begin with apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration"},
		{
			name: "wrong types, all of them", text: head + "healthzPort: ten\nfileCheckFrequency: soon\n",
			want: "line 3: healthzPort: is \"ten\", must be a whole number of 32 bits\nline 4: fileCheckFrequency: time: invalid duration \"soon\"",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Load([]byte(tt.text), honoured())
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoadRefusesAHonouredFieldThatIsNone(t *testing.T) {
	_, _, err := Load([]byte(head), []string{"healthzPort", "heathzPort"})
	if err == nil || !strings.Contains(err.Error(), "heathzPort") {
		t.Errorf("error %v, want one that names heathzPort", err)
	}
}

func TestDefaults(t *testing.T) {
	cfg, _, err := Load([]byte(head+"maxParallelImagePulls: 3\nnodeStatusUpdateFrequency: 1m\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"endpoint": "unix:///run/containerd/containerd.sock", "logs": "/var/log/pods", "healthz": "127.0.0.1", "healthz port": int32(10248),
		"file check": 20 * time.Second, "serialize": false, "report": time.Minute, "static pods": "", "cgroup root": "",
	}
	got := map[string]any{
		"endpoint": cfg.ContainerRuntimeEndpoint, "logs": cfg.PodLogsDir, "healthz": cfg.HealthzBindAddress, "healthz port": *cfg.HealthzPort,
		"file check": cfg.FileCheckFrequency.Duration, "serialize": *cfg.SerializeImagePulls, "report": cfg.NodeStatusReportFrequency.Duration,
		"static pods": cfg.StaticPodPath, "cgroup root": cfg.CgroupRoot,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestPortZeroSwitchesHealthzOff(t *testing.T) {
	cfg, _, err := Load([]byte(head+"healthzPort: 0\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if *cfg.HealthzPort != 0 {
		t.Errorf("healthzPort: 0 became %d", *cfg.HealthzPort)
	}
}

func TestDefaultsAreStable(t *testing.T) {
	a := &kubeletv1beta1.KubeletConfiguration{}
	SetDefaults(a)
	b := a.DeepCopy()
	SetDefaults(b)
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the second time changes (-first +second):\n%s", diff)
	}
}

func TestEveryFieldHasAGroup(t *testing.T) {
	typ := reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]()
	for f := range typ.Fields() {
		if name := jsonName(f); name != "" && groupOf(name) == unknown {
			t.Errorf("field %s has no group: decide what a node goes without when it is not honoured", name)
		}
	}
	for g := unknown; g <= volumes; g++ {
		if consequences()[g] == "" {
			t.Errorf("group %d has no consequence", g)
		}
	}
}

func TestLoadFileNamesThePath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if _, _, err := LoadFile(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("absent file: error %v", err)
	}
	if err := os.WriteFile(path, []byte("kind: Pod\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadFile(path, nil); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("wrong kind: error %v", err)
	}
	if err := os.WriteFile(path, []byte(head), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadFile(path, nil); err != nil {
		t.Error(err)
	}
}

func FuzzLoad(f *testing.F) {
	for _, s := range []string{
		head, head + "healthzPort: 1\n", head + "evictionHard: {a: b}\nregisterWithTaints: [{key: a}]\nlogging: {format: json}\n",
		`{"kind":"KubeletConfiguration","apiVersion":"kubelet.config.k8s.io/v1beta1","cpuCFSQuotaPeriod":"1s"}`, head + "logging: {vmodule: [x]}\n", "---\n",
		head + "tracing: {samplingRatePerMillion: 1}\nuserNamespaces: {idsPerPod: 65536}\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, problems, err := Load(data, honoured())
		if (cfg == nil) != (err != nil) {
			t.Fatalf("configuration %v, error %v", cfg, err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Field == "" || p.Severity == 0 {
				t.Errorf("incomplete problem %+v", p)
			}
		}
	})
}
