package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "proxy.yaml")
	content := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: userspace\nlogging: {format: json, verbosity: 5}\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name      string
		args      []string
		wantOut   string
		wantUsage string
		wantErr   string
	}{
		{name: "version", args: []string{"--version"}, wantOut: "Kubernetes v1.37.2+nodekit."},
		{name: "help", args: []string{"--help"}, wantUsage: "--source-dir"},
		{name: "unknown flag", args: []string{"--proxy"}, wantErr: "--proxy"},
		{name: "argument", args: []string{"start"}, wantErr: `"start"`},
		{name: "log level", args: []string{"-v", "loud"}, wantErr: "loud"},
		{name: "log format", args: []string{"--log-format", "xml"}, wantErr: "--log-format"},
		{name: "no metrics", args: []string{"--metrics-port", "0"}, wantErr: "--metrics-bind-address"},
		{name: "no file", args: []string{"--config", filepath.Join(dir, "none.yaml")}, wantErr: "none.yaml"},
		{name: "no source", wantErr: "--source-dir"},
		{name: "mode of the file", args: []string{"--config", file, "--source-dir", dir}, wantErr: `"userspace"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			err := run(tt.args, &stdout, &stderr)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("run() = %v, want an error with %q", err, tt.wantErr)
			}
			if !strings.Contains(stdout.String(), tt.wantOut) || !strings.Contains(stderr.String(), tt.wantUsage) {
				t.Errorf("it printed %q and %q, want %q and %q", &stdout, &stderr, tt.wantOut, tt.wantUsage)
			}
		})
	}
}

func TestLogger(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		want string // what of one debug and one info line is written
	}{
		"default": {want: "msg=i"},
		"number":  {args: []string{"-v", "4"}, want: "msg=d msg=i"},
		"low":     {args: []string{"-v=2"}, want: "msg=i"},
		"name":    {args: []string{"--log-level", "debug"}, want: "msg=d msg=i"},
		"json":    {args: []string{"--log-format=json"}, want: `"msg":"i"`},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o, err := parse(tt.args, &out)
			if err != nil {
				t.Fatal(err)
			}
			log, err := o.logger(nil, &out)
			if err != nil {
				t.Fatal(err)
			}
			log.Debug("d")
			log.Info("i")
			got := out.String()
			for word := range strings.FieldsSeq(tt.want) {
				if !strings.Contains(got, word) {
					t.Errorf("the log lacks %s: %s", word, got)
				}
			}
			if !strings.Contains(tt.want, "msg=d") && strings.Contains(got, "d\n") && strings.Contains(got, "level=DEBUG") {
				t.Errorf("the log has debug lines: %s", got)
			}
		})
	}
}
