package node_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// TestResolverConfigurationIsChecked at the start and every half a minute.
func TestResolverConfigurationIsChecked(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		path := filepath.Join(t.TempDir(), "resolv.conf")
		write := func(searches int) {
			t.Helper()
			text := "nameserver 10.0.0.1\nsearch " + strings.Repeat("a.example ", searches) + "\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		told := func() int { return m.log.count("msg=event", "reason=CheckLimitsForResolvConf") }
		write(33)
		m.start(t, func(c *node.Config) { c.Kubelet.ResolverConfig = &path })
		pass(time.Second)
		if got := told(); got != 1 || !m.log.has("level=WARN", "more than 32 domains") {
			t.Errorf("%d events at the start, want 1", got)
		}
		write(1)
		pass(5 * time.Minute)
		if got := told(); got != 1 {
			t.Errorf("%d events after the file was mended, want still 1", got)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if !m.log.has("level=WARN", "reason=CheckLimitsForResolvConf", "no such file") {
			t.Error("nobody tells that the file is gone")
		}
	})
}

// TestStartIsTold as the first event of the node.
func TestStartIsTold(t *testing.T) {
	onMachine(t, func(m *machine) {
		m.start(m.t)
		pass(time.Second)
		if got := m.log.count("msg=event", "reason=Starting", "Starting kubelet."); got != 1 {
			m.t.Errorf("the start is told %d times, want once", got)
		}
	})
}
