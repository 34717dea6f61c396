package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/healthcheck"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
	"github.com/nodekit-go/nodekit/proxier/nftables"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
	"github.com/nodekit-go/nodekit/proxier/source"
)

var (
	_ Runner          = (*proxier.Proxier)(nil)
	_ Runner          = (*source.Dir)(nil)
	_ Runner          = (*source.Pods)(nil)
	_ Runner          = (*healthcheck.Server)(nil)
	_ proxier.Backend = (*nftables.Backend)(nil)
	_ source.Sink     = (*proxier.Feed)(nil)
)

const webService = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.10
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
`

const webPods = `{"apiVersion":"v1","kind":"PodList","items":[{
	"metadata":{"name":"web-1","namespace":"default","labels":{"app":"web"}},
	"spec":{"containers":[{"name":"c","ports":[{"name":"http","containerPort":8080}]}]},
	"status":{"phase":"Running","podIPs":[{"ip":"10.244.0.5"}],"conditions":[{"type":"Ready","status":"True"}]}}]}`

// kubelet serves pods on a unix socket and returns its URL.
func kubelet(t *testing.T, pods string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, pods) })}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return "unix://" + path
}

// noHealth is a health server that serves nothing.
type noHealth struct{}

func (noHealth) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func withoutHealth(func() proxier.Status) (Runner, error) { return noHealth{}, nil }

func TestServiceWithSelectorGetsPodsOfTheKubelet(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(webService), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := proxiertest.NewBackend(t)
	called := make(chan struct{}, 1)
	backend.OnCall(func(proxiertest.Call) { called <- struct{}{} })
	p, err := New(Config{
		NodeName: "Node-A", SourceDir: dir, PodsURL: kubelet(t, webPods), Backend: backend, Health: withoutHealth,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	<-called
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
	want := "default/web:http TCP IPv4; at ClusterIP 10.96.0.10:80; to 10.244.0.5:8080(here)"
	ports := backend.State().Ports
	if len(ports) != 1 || ports[0].String() != want {
		t.Errorf("in force are %v, want %s", ports, want)
	}
	if st := p.Status(); st.LastSuccess.IsZero() || len(st.Waiting) > 0 {
		t.Errorf("Status() = %+v", st)
	}
}

func TestRunEndsWithTheFirstPartThatFails(t *testing.T) {
	broken := errors.New("broken")
	p, err := New(Config{
		Backend: proxiertest.NewBackend(t), Health: withoutHealth,
		Sources: func(*proxier.Proxier) ([]Runner, error) { return []Runner{failing{broken}}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, broken) {
		t.Errorf("Run() = %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Run(context.Context) error { return f.err }

func fromFile(t *testing.T, lines string) *config.Config {
	t.Helper()
	cfg, err := config.Decode([]byte("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" + lines))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name string
		cfg  Config
		want string
	}{
		{name: "no source", cfg: Config{}, want: "--source-dir"},
		{name: "no Node object", cfg: Config{SourceDir: "x", Proxy: fromFile(t, "detectLocalMode: NodeCIDR\n")}, want: "NodeCIDR"},
		{name: "address of the kubelet", cfg: Config{SourceDir: "x", PodsURL: "/run/kubelet.sock"}, want: "unix:///"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.cfg); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("New() = %v, want an error with %q", err, tt.want)
			}
		})
	}
}

func TestModeIPVSNeedsTheKernel(t *testing.T) {
	if ipvs.Check("") == nil {
		t.Skip("this kernel has IPVS")
	}
	if _, err := New(Config{SourceDir: "x", Proxy: fromFile(t, "mode: ipvs\n")}); err == nil || !strings.Contains(err.Error(), `mode "ipvs": ipvs: `) {
		t.Errorf("New() = %v, want what the kernel lacks", err)
	}
}

// buffer is a log that several parts write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func TestNewLogsWhatHasNoEffect(t *testing.T) {
	var out buffer
	_, err := New(Config{
		SourceDir: "x", Proxy: fromFile(t, "featureGates: {Some: true}\nnodePortAddresses: [192.0.2.0/24]\n"),
		Log: slog.New(slog.NewTextHandler(&out, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`line=3 field=featureGates[Some]`, "mode is not set, nftables is used",
		"node ports answer at all addresses of the node\" family=IPv6",
	} {
		if !strings.Contains(out.b.String(), want) {
			t.Errorf("the log lacks %q:\n%s", want, &out.b)
		}
	}
}

func TestLocalhostOpensNoOtherAddress(t *testing.T) {
	var out buffer
	cfg := Config{Proxy: fromFile(t, "nodePortAddresses: [localhost]\n"), Log: slog.New(slog.NewTextHandler(&out, nil))}
	primary, prefixes := nodePortAddresses(cfg)
	warnOpen(cfg, primary, prefixes)
	if got := out.b.String(); !strings.Contains(got, "do not answer at localhost") || strings.Contains(got, "all addresses") {
		t.Errorf("the log says %q", got)
	}
}

func TestNodeEventsNameTheNode(t *testing.T) {
	e, err := newEvents(&rest.Config{Host: "http://192.0.2.1"}, "node-a", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e.onNode(corev1.EventTypeNormal, "Starting", "")
	if got := (<-e.queue).Regarding; got.Name != "node-a" || got.UID != "node-a" {
		t.Errorf("the event is about %+v, want name and UID node-a", got)
	}
}

func TestNodePortAddresses(t *testing.T) {
	for lines, want := range map[string]string{
		"": "true []",
		"nodePortAddresses: [primary, 10.0.0.0/8]\n":    "true [10.0.0.0/8]",
		"nodePortAddresses: [10.0.0.0/8, all]\n":        "false []",
		"nodePortAddresses: [localhost]\n":              "false [127.0.0.0/8 ::1/128]",
		"nodePortAddresses: [localhost, 10.0.0.0/8]\n":  "false [127.0.0.0/8 ::1/128 10.0.0.0/8]",
		"nodePortAddresses: [10.0.0.0/8, 'fd00::/8']\n": "false [10.0.0.0/8 fd00::/8]",
	} {
		cfg := Config{Proxy: fromFile(t, lines), Log: slog.New(slog.DiscardHandler)}
		if got := fmt.Sprint(nodePortAddresses(cfg)); got != want {
			t.Errorf("%q: node ports answer at %s, want %s", lines, got, want)
		}
	}
}

func TestLocalTraffic(t *testing.T) {
	tests := []struct {
		lines string
		want  nftables.Local
	}{
		{lines: ""},
		{lines: "clusterCIDR: 10.244.0.0/16\n", want: nftables.Local{ClusterCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}},
		{lines: "clusterCIDR: 10.244.0.0/16\ndetectLocalMode: BridgeInterface\ndetectLocal: {bridgeInterface: cni0}\n", want: nftables.Local{BridgeInterface: "cni0"}},
		{lines: "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: veth}\n", want: nftables.Local{InterfaceNamePrefix: "veth"}},
	}
	for _, tt := range tests {
		got := localTraffic(fromFile(t, tt.lines))
		if diff := cmp.Diff(tt.want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tt.lines, diff)
		}
	}
}

func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ flag, file, want string }{
		{flag: "Flag", file: "file", want: "flag"},
		{file: " File ", want: "file"},
		{want: strings.ToLower(host)},
	} {
		cfg := Config{NodeName: tt.flag, Proxy: config.Default()}
		cfg.Proxy.HostnameOverride = tt.file
		if err := cfg.complete(); err != nil || cfg.NodeName != tt.want {
			t.Errorf("flag %q, file %q: the node is %q, %v, want %q", tt.flag, tt.file, cfg.NodeName, err, tt.want)
		}
	}
}

func TestPrimaryAddrs(t *testing.T) {
	got := primaryAddrs("192.0.2.9")
	if len(got) == 0 || got[0] != netip.MustParseAddr("192.0.2.9") {
		t.Errorf("primaryAddrs() = %v, want bindAddress first", got)
	}
	for _, bind := range []string{"0.0.0.0", "127.0.0.1"} {
		families := map[proxier.Family]bool{}
		for _, a := range primaryAddrs(bind) {
			if f := proxier.FamilyOf(a); families[f] || !a.IsGlobalUnicast() {
				t.Errorf("primaryAddrs(%q) has %v, want one global address of a family at most", bind, a)
			} else {
				families[f] = true
			}
		}
	}
}

func TestCleanup(t *testing.T) {
	b := proxiertest.NewBackend(t)
	if err := Cleanup(t.Context(), Config{Backend: b}); err != nil {
		t.Fatal(err)
	}
	if calls := b.Calls(); len(calls) != 1 || calls[0].Op != proxiertest.Cleanup {
		t.Errorf("the backend got %v, want one Cleanup", calls)
	}
}

func TestExplainFromManifests(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(webService), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := Config{NodeName: "node-a", SourceDir: dir, PodsURL: kubelet(t, webPods), Proxy: fromFile(t, "clusterCIDR: 10.244.0.0/16\n")}
	var out strings.Builder
	if err := Explain(t.Context(), cfg, "10.96.0.10:80", &out); err != nil {
		t.Fatal(err)
	}
	want := `ClusterIP 10.96.0.10:80 of Service default/web:http TCP IPv4
  from anywhere: balanced: all endpoints that topology and readiness admit
    10.244.0.5:8080(here), 1 in 1
  in table ip nodekit-proxy, where names have the prefix of the generation in force:
    cluster-ips { 10.96.0.10 }
    endpoints { 10.96.0.10 . tcp . 80 . 0 : 10.244.0.5 . 8080 }
    hairpin { 10.244.0.5 . 10.244.0.5 . tcp . 8080 }
    services { 10.96.0.10 . tcp . 80 : goto cluster-lb-1 }
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"10.96.0.10", "web:80", "10.96.0.10:80/icmp"} {
		if err := Explain(t.Context(), cfg, bad, &out); err == nil || !strings.Contains(err.Error(), "is not") {
			t.Errorf("%q is taken: %v", bad, err)
		}
	}
}
