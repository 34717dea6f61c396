package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/internal/netnstest"
)

// asProgram set to 1 makes the test binary the program itself.
const asProgram = "NODEKIT_TEST_AS_KUBE_PROXY"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "1" {
		main()
		return
	}
	leakcheck.Main(m)
}

const (
	configuration = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clusterCIDR: 10.244.0.0/24
healthzBindAddress: 127.0.0.1:10256
`
	webService = `apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.10
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
`
	webPods = `{"apiVersion":"v1","kind":"PodList","items":[{
	"metadata":{"name":"web-1","namespace":"default","labels":{"app":"web"}},"spec":{"containers":[{"name":"c"}]},
	"status":{"phase":"Running","podIPs":[{"ip":"10.244.0.5"}],"conditions":[{"type":"Ready","status":"True"}]}}]}`
)

// host is a node with one pod that answers, a directory of Services and a kubelet.
type host struct {
	node *netnstest.NS
	dir  string
	args []string
	// settled tells whether the kubelet knows the status of its pods.
	settled atomic.Bool
}

func newHost(t *testing.T) *host {
	t.Helper()
	netnstest.NeedCommand(t, "nft")
	h := &host{node: netnstest.New(t), dir: t.TempDir()}
	pod := netnstest.New(t)
	netnstest.Veth(t,
		netnstest.End{NS: h.node, Name: "pod0", Addrs: []string{"10.244.0.1/24"}},
		netnstest.End{NS: pod, Name: "eth0", Addrs: []string{"10.244.0.5/24"}})
	h.node.IP(t, "route", "add", "default", "via", "10.244.0.5")
	l, err := pod.Listen("tcp", "10.244.0.5:8080")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })

	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	if l, err = net.Listen("unix", socket); err != nil {
		t.Fatal(err)
	}
	serve(t, l, func(w http.ResponseWriter, _ *http.Request) {
		if !h.settled.Load() {
			http.Error(w, "the status of the pods is not known yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, webPods)
	})
	file := filepath.Join(t.TempDir(), "kube-proxy.yaml")
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	h.args = []string{
		"--config", file, "--source-dir", h.dir, "--pods-url", "unix://" + socket, "--hostname-override", "node-a",
	}
	return h
}

func serve(t *testing.T, l net.Listener, handler http.HandlerFunc) {
	t.Helper()
	srv := &http.Server{Handler: handler}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(l) })
	t.Cleanup(func() {
		_ = srv.Close()
		wg.Wait()
	})
}

func (h *host) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start starts the program on the node. It is killed at the test's end at the
// latest.
func (h *host) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	cmd.Stderr = t.Output()
	if err := h.node.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // again, where the test has waited
	})
	return cmd
}

// get asks for one answer over a connection of its own.
func (h *host) get(addr string) error {
	conn, err := h.node.Dial("tcp", addr, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	answer, err := io.ReadAll(conn)
	if err == nil && len(answer) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// await asks until there is an answer.
func (h *host) await(t *testing.T, addr string) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for err := h.get(addr); err != nil; err = h.get(addr) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", addr, err)
		}
	}
}

// traffic asks without pause until the returned function is called, and fails the
// test for each request without an answer.
func (h *host) traffic(t *testing.T, addr string) (stop func() int) {
	t.Helper()
	var done atomic.Bool
	var wg sync.WaitGroup
	n := 0
	wg.Go(func() {
		for ; !done.Load(); n++ {
			if err := h.get(addr); err != nil {
				t.Errorf("request %d to %s: %v", n, addr, err)
			}
		}
	})
	return func() int {
		done.Store(true)
		wg.Wait()
		return n
	}
}

// A killed kube-proxy leaves its rules, and the next one takes them over without a
// failed connection, however long the kubelet does not know its pods.
func TestKernelKilledAndStartedAgain(t *testing.T) {
	h := newHost(t)
	const web, health = "10.96.0.10:80", "127.0.0.1:10256"
	h.write(t, "web.yaml", webService)
	first := h.start(t, h.args...)
	h.await(t, health)
	if err := h.get(web); err == nil {
		t.Error("there is an answer though nothing is known of the pods")
	}
	if out, err := h.node.Run("nft", "list", "tables"); err != nil || out != "" {
		t.Errorf("tables before the pods are known: %q, %v, want none", out, err)
	}
	h.settled.Store(true)
	h.await(t, web)

	stop := h.traffic(t, web)
	running := first
	for i := range 5 {
		h.settled.Store(false)
		kill(t, running)
		h.write(t, fmt.Sprintf("more-%d.yaml", i), fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: more-%d}
spec: {clusterIP: 10.96.1.%d, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
`, i, i+1))
		running = h.start(t, h.args...)
		h.await(t, health)
		h.settled.Store(true)
		if i%2 == 0 {
			h.await(t, fmt.Sprintf("10.96.1.%d:80", i+1))
		}
	}
	h.await(t, "10.96.1.5:80")
	if n := stop(); n < 100 {
		t.Errorf("%d requests were sent, too few to show anything", n)
	}
	if err := running.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := running.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v, want exit code 0", err)
	}
	if err := h.get(web); err != nil {
		t.Errorf("after SIGTERM: %v, want the Service to go on", err)
	}
	if err := h.start(t, "--cleanup").Wait(); err != nil {
		t.Errorf("--cleanup: %v", err)
	}
	if out, err := h.node.Run("nft", "list", "tables"); err != nil || out != "" {
		t.Errorf("tables after --cleanup: %q, %v, want none", out, err)
	}
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("after SIGKILL: %v, want a killed process", err)
	}
}
