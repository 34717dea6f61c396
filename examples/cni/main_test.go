package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/cni/cnitest"
	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// lab is a node with stub plugins.
type lab struct {
	*testing.T
	plugins     *cnitest.Plugins
	conf, state string
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, plugins: cnitest.New(t, "bridge", "portmap", "host-local"), conf: t.TempDir(), state: filepath.Join(t.TempDir(), "state")}
	const list = `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","ipam":{"type":"host-local"}},{"type":"portmap","capabilities":{"portMappings":true}}]}`
	if err := os.WriteFile(filepath.Join(l.conf, "10-pods.conflist"), []byte(list), 0o644); err != nil {
		t.Fatal(err)
	}
	return l
}

// cni runs the program and returns what it printed.
func (l *lab) cni(args ...string) (string, error) {
	l.Helper()
	var out, log bytes.Buffer
	args = append(args, "--conf-dir", l.conf, "--bin-dir", l.plugins.Dir(), "--state-dir", l.state)
	err := run(l.Context(), args, &out, &log)
	return out.String(), err
}

func (l *lab) want(output string, args ...string) {
	l.Helper()
	got, err := l.cni(args...)
	if err != nil || strings.Join(strings.Fields(got), " ") != output {
		l.Errorf("cni %s: %v, printed\n%s\nwant %s", strings.Join(args, " "), err, got, output)
	}
}

func TestCommands(t *testing.T) {
	l := newLab(t)
	status := "READY yes NETWORK pods (CNI 1.0.0: bridge+host-local, portmap) FILE " + filepath.Join(l.conf, "10-pods.conflist") +
		" PLUGIN bridge " + filepath.Join(l.plugins.Dir(), "bridge") + " IPAM host-local " + filepath.Join(l.plugins.Dir(), "host-local") +
		" PLUGIN portmap " + filepath.Join(l.plugins.Dir(), "portmap")
	l.want(status, "status")
	l.want("ADDRESS GATEWAY INTERFACE NETWORK 10.88.0.2/16 10.88.0.1 eth0 pods fd00:88::2/64 fd00:88::1 eth0 pods",
		"add", "--netns", "vm:1", "--id", "web", "--port", "8080:80")
	if c := l.plugins.Calls()[1]; !strings.Contains(c.Config, `"runtimeConfig":{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}]}`) {
		t.Errorf("portmap read %s", c.Config)
	}
	l.want("web/eth0 as it was added", "check", "--id", "web")
	l.want(status+" ATTACHMENT NETWORK STATE NETNS web/eth0 pods attached vm:1", "status")
	l.want("nothing to remove", "gc", "--keep", "web/eth0")
	l.want("web/eth0 detached", "del", "--id", "web")
	l.want("web/eth0 detached", "del", "--id", "web")
	l.want("ADDRESS GATEWAY INTERFACE NETWORK 10.88.0.2/16 10.88.0.1 eth0 pods fd00:88::2/64 fd00:88::1 eth0 pods",
		"add", "--netns", "vm:2", "--id", "db")
	if err := os.Remove(filepath.Join(l.conf, "10-pods.conflist")); err != nil {
		t.Fatal(err)
	}
	l.want("ATTACHMENT NETWORK STATE NETNS db/eth0 pods attached vm:2", "gc")
	if held := l.plugins.Held(); len(held) > 0 {
		t.Errorf("the plugins still hold %v", held)
	}
}

func TestJSON(t *testing.T) {
	l := newLab(t)
	out, err := l.cni("add", "--netns", "vm:1", "--id", "web", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ IPs []struct{ Address string } }
	if err := json.Unmarshal([]byte(out), &result); err != nil || len(result.IPs) != 2 || result.IPs[0].Address != "10.88.0.2/16" {
		t.Errorf("printed %s, %v", out, err)
	}
	l.plugins.Uninstall("portmap")
	out, err = l.cni("status", "-o", "json")
	var s state
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Ready || err == nil || !strings.Contains(s.Reason, `program "portmap" not found in `+l.plugins.Dir()) || len(s.Attached) != 1 || s.Attached[0].ContainerID != "web" {
		t.Errorf("status: %+v, %v", s, err)
	}
}

func TestBadCommandLines(t *testing.T) {
	tests := []struct{ name, args, want string }{
		{"no command", "", "0 arguments"},
		{"unknown command", "run", `unknown command "run"`},
		{"no id", "check", "--id is missing"},
		{"no namespace", "add --id web", "--netns is missing"},
		{"format", "status -o yaml", `--output is "yaml"`},
		{"port", "add --id web --netns x --port 80", `--port is "80"`},
		{"large port", "add --id web --netns x --port 80000:80", `--port is "80000:80"`},
		{"keep", "gc --keep web", `--keep is "web"`},
		{"unknown flag", "status --colour", "unknown flag: --colour"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if _, err := newLab(t).cni(strings.Fields(test.args)...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}
