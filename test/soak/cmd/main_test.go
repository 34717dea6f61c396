package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/soak"
)

func TestParse(t *testing.T) {
	tests := []struct {
		name    string
		args    []string
		want    options
		wantErr string
	}{
		{name: "nothing said", want: options{output: "table", config: soak.Config{
			For: 2 * time.Hour, Kubelet: cluster.Ours, Proxy: cluster.Ours, Backend: "nftables", Runtime: cluster.Containerd,
			Seed: 1, Dir: "_out/soak/kubelet-ours_proxy-ours-nftables_containerd",
		}}},
		{
			name: "everything said",
			args: []string{
				"-for", "10m", "-kubelet", "/bin/k", "-proxy", "stock", "-backend", "iptables",
				"-runtime", "/run/crio/crio.sock", "-seed", "7", "-o", "json",
			},
			want: options{output: "json", config: soak.Config{
				For: 10 * time.Minute, Kubelet: "/bin/k", Proxy: cluster.Stock, Backend: "iptables", Runtime: "/run/crio/crio.sock",
				Seed: 7, Dir: "_out/soak/kubelet--bin-k_proxy-stock-iptables_socket-run-crio-crio.sock",
			}},
		},
		{name: "a kubelet that there is not", args: []string{"-kubelet", "theirs"}, wantErr: "-kubelet"},
		{name: "no kubelet", args: []string{"-kubelet", "none"}, wantErr: "-kubelet"},
		{name: "no proxy", args: []string{"-proxy", "none"}, wantErr: "-proxy"},
		{name: "a backend that there is not", args: []string{"-backend", "ipvs"}, wantErr: "-backend"},
		{name: "a runtime that there is not", args: []string{"-runtime", "docker"}, wantErr: "-runtime"},
		{name: "a format that there is not", args: []string{"-o", "yaml"}, wantErr: "-o"},
		{name: "to record", args: []string{"-record", "-runtime", "containerd2", "-backend", "iptables", "-proxy", "stock"}, want: options{
			output: "table", record: true, config: soak.Config{
				For: 2 * time.Hour, Kubelet: cluster.Ours, Proxy: cluster.Stock, Backend: "iptables", Runtime: cluster.Containerd2,
				Seed: 1, Dir: "_out/soak/kubelet-ours_proxy-stock-iptables_containerd2",
			},
		}},
		{name: "to record somebody else's runtime", args: []string{"-record", "-runtime", "/run/crio/crio.sock"}, wantErr: "-record"},
		{name: "too short", args: []string{"-for", "1s"}, wantErr: "a minute"},
		{name: "an argument", args: []string{"now"}, wantErr: `"now"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var complaints bytes.Buffer
			got, err := parse(tt.args, &complaints)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error %v, want one with %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
	var help bytes.Buffer
	if _, err := parse([]string{"-help"}, &help); !errors.Is(err, flag.ErrHelp) || !strings.Contains(help.String(), "-seed") {
		t.Errorf("help is %q, %v", help.String(), err)
	}
}

func TestSaveMakesTheFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b.json")
	if err := save(&soak.Report{Kit: "a kit"}, path); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), `"kit": "a kit"`) {
		t.Errorf("the file holds %s, %v", data, err)
	}
}

func TestJudgeAgain(t *testing.T) {
	dir := t.TempDir()
	if _, err := judgeAgain(dir); err == nil {
		t.Error("a folder without a soak was judged")
	}
	if err := save(&soak.Report{Kit: "a kit", Requests: map[string]soak.Requests{"cluster IP": {Sent: 9}}}, filepath.Join(dir, outcome)); err != nil {
		t.Fatal(err)
	}
	lines := `{"at":1,"quiet":true,"counts":{"rules":3}}` + "\n" + `{"at":2,"quiet":true,"counts":{"rules":4}}` + "\n"
	if err := os.WriteFile(filepath.Join(dir, soak.SamplesFile), []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	report, err := judgeAgain(dir)
	if err != nil {
		t.Fatal(err)
	}
	var no []string
	for _, fact := range report.Facts {
		if !fact.OK {
			no = append(no, fact.Name)
		}
	}
	if diff := cmp.Diff([]string{"no more rules", "all kinds of work were done"}, no); diff != "" {
		t.Errorf("what does not hold (-want +got):\n%s", diff)
	}
	if report.Kit != "a kit" || len(report.Quiet) != 2 {
		t.Errorf("the report is %+v", report)
	}
}
