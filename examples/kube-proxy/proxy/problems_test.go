package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

func TestProblemsShowUntilTheyAreOver(t *testing.T) {
	m := newMetrics([]proxier.Family{proxier.IPv4})
	e, err := newEvents(&rest.Config{Host: "http://192.0.2.1"}, "node-a", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	p := newProblems(m, e, slog.New(slog.DiscardHandler))
	gauge := func() float64 { return gathered(t, m, "kubeproxy_problems")["about=kernel-parameters"] }
	p.set(aboutHost, errors.New("read-only file system"))
	p.set(aboutHost, errors.New("read-only file system"))
	if diff := cmp.Diff(map[string]string{aboutHost: "read-only file system"}, p.all()); diff != "" || gauge() != 1 {
		t.Errorf("the gauge is %v, problems (-want +got):\n%s", gauge(), diff)
	}
	if n := len(e.queue); n != 1 {
		t.Fatalf("%d events, want 1", n)
	}
	if got := <-e.queue; got.Reason != "FailedToPrepareHost" || got.Note != "read-only file system" || got.Type != "Warning" {
		t.Errorf("the event says %s %s: %s", got.Type, got.Reason, got.Note)
	}
	p.set(aboutHost, nil)
	if len(p.all()) > 0 || gauge() != 0 {
		t.Errorf("afterwards the gauge is %v, problems are %v", gauge(), p.all())
	}
	// Without an API server nobody gets events.
	newProblems(m, nil, slog.New(slog.DiscardHandler)).set(aboutDrift, errors.New("no"))
}

func TestSLIs(t *testing.T) {
	m := newMetrics([]proxier.Family{proxier.IPv4})
	m.slis.observe("ping", "healthz", true)
	m.answered("/livez", 200)
	m.answered("/livez", 503)
	m.registry = m.slis.registry
	for name, want := range map[string]map[string]float64{
		"kubernetes_healthcheck": {"name=ping,type=healthz": 1, "name=proxy,type=livez": 0},
		"kubernetes_healthchecks_total": {
			"name=ping,status=success,type=healthz": 1, "name=proxy,status=success,type=livez": 1, "name=proxy,status=error,type=livez": 1,
		},
	} {
		if diff := cmp.Diff(want, gathered(t, m, name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A file that says something else ends the program; one that is not valid, or says the
// same in other words, does not.
func TestChangedConfigurationFileEndsTheProxy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kube-proxy.yaml")
	write := func(lines string) {
		t.Helper()
		content := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" + lines
		if err := os.WriteFile(path+".tmp", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
	}
	write("clusterCIDR: 10.244.0.0/16\n")
	loaded, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Config{
		Proxy: loaded, ConfigFile: path, Backend: proxiertest.NewBackend(t), Health: withoutHealth,
		Sources: func(*proxier.Proxier) ([]Runner, error) { return nil, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- p.Run(t.Context()) }()
	await := func(what string, is func() bool) {
		t.Helper()
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for deadline := time.Now().Add(60 * time.Second); !is(); <-tick.C {
			if time.Now().After(deadline) {
				t.Fatalf("after a minute: not %s", what)
			}
		}
	}
	write("clusterCIDR: nonsense\n")
	await("told of the invalid file", func() bool { return strings.Contains(p.problems.all()[aboutConfig], "clusterCIDR") })
	write("# the same\nclusterCIDR: '10.244.0.0/16'\n")
	await("content with the file", func() bool { return len(p.problems.all()) == 0 })
	select {
	case err := <-done:
		t.Fatalf("Run() = %v though nothing has changed", err)
	default:
	}
	write("clusterCIDR: 10.245.0.0/16\n")
	if err := <-done; err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Run() = %v, want an error with the path", err)
	}
}

func TestConfigurationFileIsNotItsNeighbours(t *testing.T) {
	f := &configFile{path: "/etc/kubernetes/kube-proxy.yaml"}
	for name, want := range map[string]bool{
		"/etc/kubernetes/kube-proxy.yaml": true, "/etc/kubernetes/..data": true, "/etc/kubernetes/proxy.log": false,
	} {
		if got := f.concerns(name); got != want {
			t.Errorf("%s concerns it: %v, want %v", name, got, want)
		}
	}
}

func TestAnswersNodePorts(t *testing.T) {
	addrs := func(text ...string) []netip.Addr {
		out := []netip.Addr{}
		for _, s := range text {
			out = append(out, netip.MustParseAddr(s))
		}
		return out
	}
	local := addrs("127.0.0.1", "10.0.0.2", "192.0.2.7", "::1", "2001:db8::7", "fe80::1")
	tests := []struct {
		name     string
		primary  []netip.Addr
		prefixes []netip.Prefix
		want     []netip.Addr
	}{
		{name: "everywhere", want: addrs("10.0.0.2", "192.0.2.7", "2001:db8::7", "fe80::1")},
		{name: "primary", primary: addrs("10.0.0.2", "2001:db8::7"), want: addrs("10.0.0.2", "2001:db8::7")},
		{name: "prefix of one family", prefixes: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}, want: addrs("192.0.2.7", "2001:db8::7", "fe80::1")},
		{
			name: "localhost", want: addrs(),
			prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := answersNodePorts(local, tt.primary, tt.prefixes)
			if diff := cmp.Diff(fmt.Sprint(tt.want), fmt.Sprint(got)); diff != "" {
				t.Errorf("node ports answer at (-want +got):\n%s", diff)
			}
		})
	}
	if all, err := localAddrs(); err != nil || len(all) == 0 {
		t.Errorf("localAddrs() = %v, %v", all, err)
	}
}
