package heartbeat_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
)

// front is an address with three API servers behind it, by turns, of which the second
// one takes connections and never answers.
type front struct {
	listener net.Listener
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	server   string
	wg       sync.WaitGroup

	mu sync.Mutex // guards the fields below
	// taken counts connections, hung those that met the one that hangs.
	taken, hung int
	conns       map[net.Conn]struct{}
}

func (f *front) serve(ctx context.Context) {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		hangs := f.taken%3 == 1
		f.taken++
		if hangs {
			f.hung++
		}
		f.conns[c] = struct{}{}
		f.mu.Unlock()
		f.wg.Go(func() { f.pass(ctx, c, hangs) })
	}
}

// pass carries bytes until either end is closed.
func (f *front) pass(ctx context.Context, c net.Conn, hangs bool) {
	defer c.Close()
	if hangs {
		_, _ = io.Copy(io.Discard, c)
		return
	}
	server, err := f.dial(ctx, "tcp", f.server)
	if err != nil {
		return
	}
	defer server.Close()
	f.mu.Lock()
	f.conns[server] = struct{}{}
	f.mu.Unlock()
	f.wg.Go(func() {
		defer server.Close()
		_, _ = io.Copy(server, c)
	})
	_, _ = io.Copy(c, server)
}

// cut ends all connections, as a server does that ends.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Close()
	}
	clear(f.conns)
}

func (f *front) close() {
	_ = f.listener.Close()
	f.cut()
	f.wg.Wait()
}

// connect puts a front before the API server of a node.
func (f *front) connect(ctx context.Context, client cluster.Client) (string, error) {
	if client.Program != "kubelet" {
		return client.Kubeconfig, nil
	}
	data, err := os.ReadFile(client.Kubeconfig)
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(data), "https://")
	if !ok {
		return "", fmt.Errorf("%s names no server", client.Kubeconfig)
	}
	f.server = rest[:strings.IndexAny(rest, "\"\n,}")]
	if f.listener, err = client.Node.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return "", err
	}
	f.dial = client.Node.Dial
	text := strings.Replace(string(data), "https://"+f.server, "https://"+f.listener.Addr().String(), 1)
	path := client.Node.Dir("front.kubeconfig")
	f.wg.Go(func() { f.serve(context.WithoutCancel(ctx)) })
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Of three API servers behind one address one hangs. Connections are cut every ten
// seconds, so that each heartbeat needs a new one and each third one meets it.
func TestServerThatHangsCostsNoHeartbeat(t *testing.T) {
	requireHost(t)
	t.Parallel()
	f := &front{conns: map[net.Conn]struct{}{}}
	c := start(t, cluster.NodeConfig{Connect: f.connect})
	t.Cleanup(f.close)
	n := c.Node(0)
	first := awaitReady(t, n, 2*time.Minute, corev1.ConditionTrue, readyMessage)
	checkLease(t, c, n)

	ctx, stop := context.WithTimeout(t.Context(), 75*time.Second)
	defer stop()
	cmd, err := c.KubectlCommand(ctx, "-n", "kube-node-lease", "get", "lease", "node-0", "--watch", "-o", "jsonpath={.spec.renewTime}{\"\\n\"}")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(10 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				f.cut()
			}
		}
	})
	var largest time.Duration
	renewals, last := 0, time.Now()
	for lines := bufio.NewScanner(out); lines.Scan(); renewals++ {
		largest = max(largest, time.Since(last))
		last = time.Now()
	}
	largest = max(largest, time.Since(last))
	if err := cmd.Wait(); ctx.Err() == nil {
		t.Fatalf("kubectl stopped watching: %v", err)
	}
	wg.Wait()
	t.Logf("%d renewals, largest gap %s, %d connections, %d of them hung", renewals, largest.Round(time.Second), f.taken, f.hung)
	if renewals < 4 || largest >= 30*time.Second {
		t.Errorf("%d renewals with gaps up to %s in 75 s, want one every 10 s and none after 30 s", renewals, largest)
	}
	if f.hung < 2 {
		t.Errorf("%d connections met the server that hangs, the test shows nothing", f.hung)
	}
	if c := awaitReady(t, n, time.Second, corev1.ConditionTrue, readyMessage); !c.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("Ready changed at %s, want no change since %s", c.LastTransitionTime, first.LastTransitionTime)
	}
}
