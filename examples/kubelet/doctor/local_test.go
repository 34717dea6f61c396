package doctor

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/kubelet/machine"
)

func TestConfiguration(t *testing.T) {
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	load := func(content string) *Node {
		file := write(t, filepath.Join(t.TempDir(), "kubelet.yaml"), head+content)
		k, problems, err := config.LoadFile(file, config.AllFields())
		if err != nil {
			t.Fatal(err)
		}
		return node(t, func(n *Node) { n.Kubelet, n.Problems = k, problems })
	}
	want(t, look(t, load("maxPods: -1\n"), "configuration"), Problem, "line 3: maxPods: is -1")
	want(t, look(t, load("healtzPort: 1\n"), "configuration"), Problem, "line 3: healtzPort: unknown field")
	want(t, look(t, load("maxPods: 5\n"), "configuration"), OK)
}

func TestManifests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "manifests")
	n := node(t, func(n *Node) { n.Kubelet.StaticPodPath = dir })
	want(t, look(t, n, "manifests"), Skipped, "there is no "+dir)
	file := write(t, filepath.Join(t.TempDir(), "file"), "")
	n.Kubelet.StaticPodPath = file + "/manifests"
	want(t, look(t, n, "manifests"), Problem, "not a directory")
	n.Kubelet.StaticPodPath = dir
	write(t, filepath.Join(dir, "web.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}\n")
	want(t, look(t, n, "manifests"), OK, "1 in "+dir)
	broken := write(t, filepath.Join(dir, "broken.yaml"), "apiVersion: v1\nkind: Pod\nmetadata: {name: broken}\nspec: {containers: [{name: x}]}\n")
	want(t, look(t, n, "manifests"), Problem, broken, "image")
}

func TestKubelet(t *testing.T) {
	status, body := http.StatusOK, "ok"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	defer s.Close()
	n := node(t, func(n *Node) { n.Kubelet.HealthzPort = new(portOf(t, s.URL)) })
	want(t, look(t, n, "kubelet"), OK, "says ok")
	status, body = http.StatusInternalServerError, "[-]runtime failed: container runtime was last heard 1m ago\nhealthz check failed"
	want(t, look(t, n, "kubelet"), Problem, "answers 500", "container runtime was last heard")
	n.Kubelet.HealthzPort = new(portOf(t, "http://"+silent(t)))
	want(t, look(t, n, "kubelet"), Problem, "the kubelet does not run")
	n.Kubelet.HealthzPort = new(int32(0))
	want(t, look(t, n, "kubelet"), Skipped)
}

// silent returns an address at which nobody listens, and nobody will while the test runs.
func silent(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
}

func portOf(t *testing.T, address string) int32 {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseInt(u.Port(), 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return int32(port)
}

// proc writes a /proc with what the checks read of it.
func proc(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for _, s := range machine.Settings() {
		write(t, filepath.Join(dir, "sys", s.Name), fmt.Sprintln(s.Want))
	}
	for name, content := range map[string]string{
		"swaps": "Filename\tType\tSize\tUsed\tPriority\n", "sys/net/ipv4/ip_forward": "1\n", "sys/kernel/pid_max": "32768\n",
		"meminfo": "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    4000000 kB\n", "loadavg": "0.1 0.1 0.1 1/500 4242\n",
	} {
		write(t, filepath.Join(dir, name), content)
	}
	for name, content := range files {
		write(t, filepath.Join(dir, name), content)
	}
	return dir
}

func TestSwap(t *testing.T) {
	swaps := map[string]string{"swaps": "Filename\tType\tSize\tUsed\tPriority\n/swapfile file 1048572 0 -2\n"}
	n := node(t, func(n *Node) { n.Proc = proc(t, swaps) })
	want(t, look(t, n, "swap"), Problem, "swaps to /swapfile")
	n.Kubelet.FailSwapOn = new(false)
	want(t, look(t, n, "swap"), OK, "failSwapOn: false")
	n.Proc = proc(t, nil)
	want(t, look(t, n, "swap"), OK, "off")
}

func TestSettingsOfTheKernel(t *testing.T) {
	n := node(t, func(n *Node) { n.Proc = proc(t, nil) })
	want(t, look(t, n, "kernel"), OK)
	n.Proc = proc(t, map[string]string{"sys/net/ipv4/ip_forward": "0\n"})
	want(t, look(t, n, "kernel"), Problem, "net.ipv4.ip_forward is 0")
	n.Proc = proc(t, map[string]string{"sys/vm/overcommit_memory": "0\n"})
	want(t, look(t, n, "kernel"), OK)
	n.Kubelet.ProtectKernelDefaults = true
	want(t, look(t, n, "kernel"), Problem, "vm.overcommit_memory is 0, want 1")
	n = node(t, func(n *Node) {
		n.Proc = proc(t, map[string]string{"sys/net/ipv6/conf/all/forwarding": "0\n"})
		n.Kubelet.ClusterDNS = []string{"fd00::10"}
	})
	want(t, look(t, n, "kernel"), Problem, "net.ipv6.conf.all.forwarding is 0")
}

func TestCgroups(t *testing.T) {
	v2 := t.TempDir()
	write(t, filepath.Join(v2, "cgroup.controllers"), "cpuset cpu io hugetlb\n")
	n := node(t, func(n *Node) { n.Cgroups = v2 })
	want(t, look(t, n, "cgroups"), Problem, "version 2 without the controllers memory, pids")
	write(t, filepath.Join(v2, "cgroup.controllers"), "cpuset cpu io memory hugetlb pids\n")
	want(t, look(t, n, "cgroups"), OK, "version 2")
	v1 := t.TempDir()
	for _, name := range []string{"cpu", "pids"} {
		if err := os.Mkdir(filepath.Join(v1, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.Cgroups = v1
	want(t, look(t, n, "cgroups"), Problem, "no cgroups memory")
	if err := os.Mkdir(filepath.Join(v1, "memory"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, look(t, n, "cgroups"), OK, "version 1")
}

func TestMemoryAndProcesses(t *testing.T) {
	n := node(t, func(n *Node) { n.Proc = proc(t, nil) })
	want(t, look(t, n, "memory and processes"), OK, "of 7812Mi", "500 threads of 32768")
	n.Proc = proc(t, map[string]string{"meminfo": "MemTotal:        8000000 kB\nMemAvailable:    50000 kB\n"})
	want(t, look(t, n, "memory and processes"), Problem, "memory.available is below 100Mi")
	n.Proc = proc(t, map[string]string{"loadavg": "0.1 0.1 0.1 1/32700 4242\n"})
	want(t, look(t, n, "memory and processes"), Problem, "68 process IDs left of 32768")
	n.Kubelet.EvictionHard["pid.available"] = "20%"
	n.Proc = proc(t, map[string]string{"loadavg": "0.1 0.1 0.1 1/30000 4242\n"})
	want(t, look(t, n, "memory and processes"), Problem, "pid.available is below 20%")
}

func TestPorts(t *testing.T) {
	// The kubelet's own ports may be in use on the machine of the test.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := int32(l.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
	n := node(t, func(n *Node) { n.Kubelet.HealthzPort, n.Kubelet.EnableServer = &port, new(false) })
	name, err := os.ReadFile("/proc/self/comm")
	if err != nil {
		t.Fatal(err)
	}
	want(t, look(t, n, "ports"), Problem, fmt.Sprintf("healthzPort 127.0.0.1:%d is held by %s (pid %d)", port, strings.TrimSpace(string(name)), os.Getpid()))
	n.Kubelet.HealthzBindAddress = "127.0.0.77"
	want(t, look(t, n, "ports"), OK, "free: 127.0.0.77")
	n.Kubelet.HealthzBindAddress = "0.0.0.0"
	want(t, look(t, n, "ports"), Problem, "is held by")
}

func TestParseListener(t *testing.T) {
	const rest = " 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0"
	for _, tt := range []struct {
		name, line, want string
	}{
		{name: "v4", line: "   0: 0100007F:2808 00000000:0000 0A" + rest, want: "127.0.0.1:10248"},
		{name: "v6", line: "   0: 00000000000000000000000001000000:280A 00000000000000000000000000000000:0000 0A" + rest, want: "[::1]:10250"},
		{name: "all", line: "   0: 00000000000000000000000000000000:280A 00000000000000000000000000000000:0000 0A" + rest, want: "[::]:10250"},
		{name: "connection", line: "   1: 0100007F:2808 0100007F:9999 01" + rest},
		{name: "titles", line: "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"},
		{name: "no address", line: "   0: XX:2808 00000000:0000 0A" + rest},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, ok := parseListener(tt.line)
			if ok != (tt.want != "") || ok && (l.address.String() != tt.want || l.inode != "4711") {
				t.Errorf("got %v, %t; want %s", l, ok, tt.want)
			}
		})
	}
}

func FuzzParseListener(f *testing.F) {
	f.Add("   0: 0100007F:2808 00000000:0000 0A 0:0 00:0 0 0 0 4711 1")
	f.Add("0: 01:2808 0 0A 0 0 0 0 0 0")
	f.Fuzz(func(t *testing.T, line string) {
		if l, ok := parseListener(line); ok && !l.address.IsValid() {
			t.Errorf("took %v", l)
		}
	})
}

func TestResolver(t *testing.T) {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	n := node(t, func(n *Node) { n.Kubelet.ResolverConfig = &file })
	want(t, look(t, n, "resolver"), Problem, "no such file")
	write(t, file, "search example.com\nnameserver 127.0.0.53\n")
	want(t, look(t, n, "resolver"), Problem, "127.0.0.53", "loop")
	write(t, file, "nameserver 192.0.2.53\n")
	want(t, look(t, n, "resolver"), OK, "1 servers")
	n.Kubelet.ResolverConfig = new("")
	want(t, look(t, n, "resolver"), Skipped)
}
