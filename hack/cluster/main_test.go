package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodekit-go/nodekit/test/cluster"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		want    options
		wantErr string
	}{
		{
			name: "nothing said",
			want: options{wait: true, dns: true, config: cluster.Config{
				Name: "cluster", Logs: "logs", Nodes: 2,
				Node: cluster.NodeConfig{Kubelet: cluster.Stock, Proxy: cluster.Stock, Backend: "nftables", Runtime: cluster.Containerd},
			}},
		},
		{
			name: "everything said",
			args: []string{
				"-name", "x", "-nodes", "1", "-kubelet", "ours", "-proxy", "none", "-backend", "iptables",
				"-runtime", "containerd2", "-keep", "-suites", "-wait=false", "-dns=false",
			},
			want: options{keep: true, suites: true, config: cluster.Config{
				Name: "x", Logs: "logs", Nodes: 1, NoWait: true, NoDNS: true,
				Node: cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None, Backend: "iptables", Runtime: cluster.Containerd2},
			}},
		},
		{
			name: "clean one",
			args: []string{"-clean", "cluster-3f1c"},
			want: options{clean: true, names: []string{"cluster-3f1c"}, wait: true, dns: true, config: cluster.Config{
				Name: "cluster", Logs: "logs", Nodes: 2,
				Node: cluster.NodeConfig{Kubelet: cluster.Stock, Proxy: cluster.Stock, Backend: "nftables", Runtime: cluster.Containerd},
			}},
		},
		{name: "a kubelet that there is not", args: []string{"-kubelet", "theirs"}, wantErr: `-kubelet "theirs"`},
		{name: "a proxy that there is not", args: []string{"-proxy", "theirs"}, wantErr: `-proxy "theirs"`},
		{name: "a runtime that there is not", args: []string{"-runtime", "docker"}, wantErr: `-runtime "docker"`},
		{name: "a name without -clean", args: []string{"x"}, wantErr: `"x"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(append([]string{"-logs", "logs"}, tt.args...))
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error %v, want one with %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			equal := cmp.AllowUnexported(options{})
			if diff := cmp.Diff(tt.want, *got, equal, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}
