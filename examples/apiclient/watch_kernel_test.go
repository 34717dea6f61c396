//go:build linux

package apiclient_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
)

// Connections of the API client die without FIN or RST in a real kernel; new ones work.
// What the informer of the kubelet watches comes back by itself. The pings that find it
// out are the defaults of client-go, shortened from 30 s and 15 s by its own variables;
// TestWatchOnADeadConnection shows the defaults.
func TestKernelWatchOnADeadConnection(t *testing.T) {
	netnstest.NeedCommand(t, "nft")
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "2")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	ns := netnstest.New(t)
	l, err := ns.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pods{names: []string{"first"}}
	config := serve(t, l, p)
	var mu sync.Mutex // guards ports
	var ports []string
	config.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = ns.Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		if err != nil {
			return nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		ports = append(ports, fmt.Sprint(conn.LocalAddr().(*net.TCPAddr).Port))
		return conn, nil
	}
	seen := watchPods(t, config)
	await(t, seen, "first", 20*time.Second)
	for i := range 2 {
		mu.Lock()
		old := strings.Join(ports, ", ")
		mu.Unlock()
		script := filepath.Join(t.TempDir(), "script")
		text := fmt.Sprintf("table inet dead%d { chain out { type filter hook output priority 0; tcp sport { %s } drop; tcp dport { %s } drop; }; }", i, old, old)
		if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := ns.Run("nft", "-f", script); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		name := fmt.Sprintf("later-%d", i)
		p.add(name)
		took := await(t, seen, name, 20*time.Second)
		t.Logf("%s was seen after %s", name, took.Round(time.Millisecond))
	}
}
