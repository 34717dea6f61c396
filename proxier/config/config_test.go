package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const head = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"

func TestDecodeDefaults(t *testing.T) {
	fromFile, err := Decode([]byte(head))
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]*Config{"Default": Default(), "empty file": fromFile} {
		t.Run(name, func(t *testing.T) {
			want := map[string]any{
				"healthz": "0.0.0.0:10256", "mode": Mode(""), "bit": int32(14), "all": false,
				"sync": 30 * time.Second, "min": time.Duration(0), "local": ClusterCIDR, "problems": 0,
			}
			got := map[string]any{
				"healthz": cfg.HealthzBindAddress, "mode": cfg.Mode, "bit": *cfg.NFTables.MasqueradeBit, "all": cfg.NFTables.MasqueradeAll,
				"sync": cfg.NFTables.SyncPeriod.Duration, "min": cfg.NFTables.MinSyncPeriod.Duration, "local": cfg.DetectLocalMode, "problems": len(cfg.Problems),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeHealthzAddress(t *testing.T) {
	for in, want := range map[string]string{
		"":                                "0.0.0.0:10256",
		"bindAddress: 192.0.2.1":          "0.0.0.0:10256",
		"bindAddress: 'fd00::1'":          "[::]:10256",
		"healthzBindAddress: 127.0.0.1":   "127.0.0.1:10256",
		"healthzBindAddress: '::1'":       "[::1]:10256",
		"healthzBindAddress: 127.0.0.1:9": "127.0.0.1:9",
	} {
		cfg, err := Decode([]byte(head + in + "\n"))
		if err != nil || cfg.HealthzBindAddress != want {
			t.Errorf("%q: healthzBindAddress is %v, %v, want %s", in, cfg, err, want)
		}
	}
}

func TestDecodeValues(t *testing.T) {
	cfg, err := Decode([]byte(head + `mode: nftables
hostnameOverride: node-a
clusterCIDR: 10.244.0.7/16, fd01::/48
nftables: {masqueradeBit: 0, masqueradeAll: true, minSyncPeriod: 100ms, syncPeriod: 1m}
nodePortAddresses: [primary, 192.0.2.0/24]
iptables: {masqueradeAll: true}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd01::/48")}
	if diff := cmp.Diff(want, cfg.ClusterCIDRs, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("ClusterCIDRs (-want +got):\n%s", diff)
	}
	if *cfg.NFTables.MasqueradeBit != 0 || cfg.NFTables.MinSyncPeriod.Duration != 100*time.Millisecond || cfg.HostnameOverride != "node-a" {
		t.Errorf("values are lost: %+v", cfg.KubeProxyConfiguration)
	}
	if len(cfg.Problems) > 0 {
		t.Errorf("Problems are %v, want none", cfg.Problems)
	}
}

func TestDecodeProblems(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string
	}{
		{
			name: "unknown and repeated fields", in: "moed: nftables\nnftables:\n  masqueradAll: true\nmode: nftables\nmode: nftables\n",
			want: []string{"line 3: moed: unknown field", "line 5: nftables.masqueradAll: unknown field", "line 7: mode: set twice"},
		},
		{
			name: "fields without effect", in: `clientConnection:
  kubeconfig: /x
  qps: 0
conntrack:
  maxPerCore: 32768
  min: null
  tcpBeLiberal: false
featureGates:
  SomeGate: true
metricsBindAddress: 127.0.0.1:10249
configSyncPeriod: 0s
portRange: "1-2"
`,
			want: []string{
				"line 11: featureGates[SomeGate]: has no effect: no feature has a gate",
			},
		},
		{
			name: "a section of another mode", in: "iptables: {masqueradeAll: true}\nipvs: {scheduler: '', strictARP: true}\n",
			want: []string{
				"line 3: iptables.masqueradeAll: has no effect: mode is not iptables",
				"line 4: ipvs.strictARP: has no effect: mode is not ipvs",
			},
		},
		{name: "the section of mode ipvs", in: "mode: ipvs\nipvs: {scheduler: lc, strictARP: true}\niptables: {masqueradeAll: true}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Decode([]byte(head + tt.in))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, p := range cfg.Problems {
				s := p.String()
				if i < len(tt.want) && strings.HasPrefix(s, tt.want[i]) {
					s = tt.want[i] // a reason may say more
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct {
		name, in string
		want     []string // one for each line of the error
	}{
		{name: "nothing", in: "", want: []string{"0 documents"}},
		{name: "two documents", in: head + "---\n" + head, want: []string{"2 documents"}},
		{name: "another kind", in: "apiVersion: v1\nkind: Service\n", want: []string{`line 2: is "v1" "Service"`}},
		{name: "another version", in: "apiVersion: kubeproxy.config.k8s.io/v1\nkind: KubeProxyConfiguration\n", want: []string{"must be"}},
		{name: "syntax", in: head + "mode: [\n", want: []string{"line "}},
		{name: "wrong type", in: head + "mode: nftables\nnftables:\n  masqueradeBit: many\n", want: []string{"line 5: nftables.masqueradeBit: "}},
		{
			name: "values", in: head + `mode: kernelspace
clusterCIDR: 10.0.0.0/8,10.1.0.0/16
healthzBindAddress: localhost:1
bindAddress: here
detectLocalMode: BridgeInterface
nodePortAddresses: [primary, somewhere]
logging: {format: xml}
nftables:
  masqueradeBit: 32
  syncPeriod: 1s
  minSyncPeriod: 2s
`, want: []string{
				"line 3: mode: ", "line 11: nftables.masqueradeBit: ", "line 13: nftables.minSyncPeriod: ",
				"line 1: detectLocal.bridgeInterface: ", "line 4: clusterCIDR: ", "line 8: nodePortAddresses[1]: ",
				"line 5: healthzBindAddress: ", "line 6: bindAddress: ", "line 9: logging.format: ",
			},
		},
		{name: "prefix of an interface, iptables", in: head + "mode: iptables\ndetectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: fifteen-letters}\n", want: []string{"line 5: detectLocal.interfaceNamePrefix: "}},
		{name: "prefix of an interface", in: head + "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: much-too-long-a-name}\n", want: []string{"line 4: detectLocal.interfaceNamePrefix: "}},
		{
			name: "values of mode ipvs", in: head + `mode: ipvs
ipvs:
  syncPeriod: 1s
  minSyncPeriod: 2s
  udpTimeout: -1s
  excludeCIDRs: [10.0.0.0/8, here]
`, want: []string{"line 6: ipvs.minSyncPeriod: ", "line 7: ipvs.udpTimeout: ", "line 8: ipvs.excludeCIDRs[1]: "},
		},
		{name: "detect mode", in: head + "detectLocalMode: Magic\n", want: []string{"line 3: detectLocalMode: "}},
		{name: "cluster CIDR", in: head + "clusterCIDR: 10.0.0.0\n", want: []string{"line 3: clusterCIDR: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.in))
			if err == nil {
				t.Fatal("Decode() = nil error, want one")
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) {
				t.Errorf("%d errors, want %d:\n%v", len(lines), len(tt.want), err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "proxy.yaml")
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load() = %v, want an error with the path", err)
	}
	if err := os.WriteFile(path, []byte(head+"mode: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Load() = %v, want an error with the path", err)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(head))
	f.Add([]byte(head + "mode: nftables\nnftables: {masqueradeBit: 3}\nclusterCIDR: 10.0.0.0/8\nfeatureGates: {A: true}\n"))
	f.Add([]byte(`{"apiVersion":"kubeproxy.config.k8s.io/v1alpha1","kind":"KubeProxyConfiguration","conntrack":{"min":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := Decode(data)
		if (cfg == nil) == (err == nil) {
			t.Errorf("Decode() = %v, %v", cfg, err)
		}
	})
}
