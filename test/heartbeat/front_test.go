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
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// front is an address with API servers behind it, which get its connections by turns.
type front struct {
	listener net.Listener
	dial     func(ctx context.Context, network, address string) (net.Conn, error)
	wg       sync.WaitGroup

	mu sync.Mutex // guards the fields below
	// servers are addresses; taken counts the connections that each got.
	servers []string
	taken   map[string]int
	turn    int
	conns   map[net.Conn]struct{}
}

func (f *front) serve(ctx context.Context) {
	for {
		c, err := f.listener.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.turn++
		server := f.servers[f.turn%len(f.servers)]
		f.taken[server]++
		f.conns[c] = struct{}{}
		f.mu.Unlock()
		f.wg.Go(func() { f.pass(ctx, c, server) })
	}
}

// pass carries bytes until either end is closed.
func (f *front) pass(ctx context.Context, c net.Conn, address string) {
	defer c.Close()
	server, err := f.dial(ctx, "tcp", address)
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

// add puts one more server behind the front.
func (f *front) add(server string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.servers = append(f.servers, server)
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
	server := rest[:strings.IndexAny(rest, "\"\n,}")]
	f.add(server)
	if f.listener, err = client.Node.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return "", err
	}
	f.dial = client.Node.Dial
	text := strings.Replace(string(data), "https://"+server, "https://"+f.listener.Addr().String(), 1)
	path := client.Node.Dir("front.kubeconfig")
	f.wg.Go(func() { f.serve(context.WithoutCancel(ctx)) })
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// hangingPort is the port of the API server that hangs, otherPort that of the third one.
const hangingPort, otherPort = "6444", "6445"

// window is how long the heartbeats are watched.
const window = time.Minute

// Of three API servers behind one address one hangs: it is stopped, so that the kernel
// opens connections to it which nobody answers. Connections are cut every ten seconds, so
// that each heartbeat needs a new one and each third one meets it.
func TestServerThatHangsCostsNoHeartbeat(t *testing.T) {
	clustertest.Require(t)
	t.Parallel()
	f := &front{conns: map[net.Conn]struct{}{}, taken: map[string]int{}}
	c := start(t, cluster.NodeConfig{Connect: f.connect})
	t.Cleanup(f.close)
	n := c.Node(0)
	first := awaitReady(t, n, 2*time.Minute, corev1.ConditionTrue, readyMessage)
	checkLease(t, c, n)
	hanging, hangs := startServer(t, c, hangingPort)
	_, serves := startServer(t, c, otherPort)
	if err := syscall.Kill(hanging.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	f.add(hangs)
	f.add(serves)

	ctx, stop := context.WithTimeout(t.Context(), window)
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
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Logf("%d renewals, largest gap %s, connections %v", renewals, largest.Round(time.Second), f.taken)
	if renewals < 4 || largest >= 30*time.Second {
		t.Errorf("%d renewals with gaps up to %s in %s, want one every 10 s and none after 30 s", renewals, largest, window)
	}
	if f.taken[hangs] < 2 {
		t.Errorf("%d connections met the server that hangs, the test shows nothing", f.taken[hangs])
	}
	if c := awaitReady(t, n, time.Second, corev1.ConditionTrue, readyMessage); !c.LastTransitionTime.Equal(&first.LastTransitionTime) {
		t.Errorf("Ready changed at %s, want no change since %s", c.LastTransitionTime, first.LastTransitionTime)
	}
}

// startServer starts one more API server on the store of the cluster, with the flags of
// the first but for the port, and returns it and its address when it serves. It ends with
// the test.
func startServer(t *testing.T, c *cluster.Cluster, port string) (p *testnode.Process, address string) {
	t.Helper()
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.APIServer().PID()))
	if err != nil {
		t.Fatal(err)
	}
	args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	p, err = c.Plane().StartProcess("kube-apiserver-"+port, args[0], append(args[1:], "--secure-port="+port)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Kill() })
	host, _, err := net.SplitHostPort(strings.TrimPrefix(c.URL(), "https://"))
	if err != nil {
		t.Fatal(err)
	}
	address = net.JoinHostPort(host, port)
	err = testnode.Eventually(t.Context(), 2*time.Minute, address+" serves", func(ctx context.Context) error {
		if p.Exited() {
			return testnode.Fatal(fmt.Errorf("it ended, see %s", p.Log))
		}
		_, err := c.Kubectl(ctx, "", "--server=https://"+address, "get", "--raw=/readyz")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, address
}
