package doctor

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// withRuntime is a node with a runtime that works.
func withRuntime(t *testing.T, cfg runtimetest.Config) (*Node, *runtimetest.Server) {
	t.Helper()
	s := runtimetest.StartUnix(t, cfg)
	return node(t, func(n *Node) { n.Kubelet.ContainerRuntimeEndpoint = s.Endpoint() }), s
}

func TestRuntime(t *testing.T) {
	n := node(t, nil)
	socket := n.Kubelet.ContainerRuntimeEndpoint[len("unix://"):]
	want(t, look(t, n, "runtime"), Problem, "there is no socket "+socket)

	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	want(t, look(t, n, "runtime"), Problem, "nobody listens on the socket "+socket)

	if err := os.Remove(socket); err != nil {
		t.Fatal(err)
	}
	l, err = net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	other := grpc.NewServer() // a containerd without CRI
	ended := make(chan error, 1)
	go func() { ended <- other.Serve(l) }()
	found := look(t, n, "runtime")
	other.Stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	want(t, found, Problem)
	if want := "enable its CRI service"; found[0].Advice[:len(want)] != want {
		t.Errorf("advice is %q, want %q; message %q", found[0].Advice, want, found[0].Message)
	}
}

func TestRuntimeThatWorks(t *testing.T) {
	n, s := withRuntime(t, runtimetest.Config{})
	want(t, look(t, n, "runtime"), OK, "CRI v1", n.Kubelet.ContainerRuntimeEndpoint)
	s.Inject("Status", runtimetest.Fault{Edit: func(m proto.Message) {
		for _, c := range m.(*runtimeapi.StatusResponse).GetStatus().GetConditions() {
			if c.GetType() == runtimeapi.RuntimeReady {
				c.Status, c.Reason, c.Message = false, "Broken", "no snapshotter"
			}
		}
	}})
	want(t, look(t, n, "runtime"), Problem, "Broken: no snapshotter")
	n.Kubelet.ContainerRuntimeEndpoint = "tcp://127.0.0.1:1"
	want(t, look(t, n, "runtime"), Problem, `"tcp://127.0.0.1:1"`)
}

// TestCgroupDriver: the kubelet follows the runtime, whatever the configuration says.
func TestCgroupDriver(t *testing.T) {
	n, s := withRuntime(t, runtimetest.Config{})
	driver := runtimeapi.CgroupDriver_CGROUPFS
	s.Inject("RuntimeConfig", runtimetest.Fault{Edit: func(m proto.Message) {
		m.(*runtimeapi.RuntimeConfigResponse).Linux = &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}
	}})
	n.Kubelet.CgroupDriver = "cgroupfs"
	want(t, look(t, n, "cgroup driver"), OK, "cgroupfs")
	n.Kubelet.CgroupDriver = "systemd"
	want(t, look(t, n, "cgroup driver"), OK, "cgroupfs of the runtime is used, not systemd of the configuration")
	s.Down()
	want(t, look(t, n, "cgroup driver"), Skipped)
}

// TestCgroupDriverOfAnOldRuntime: it has no call for it, and tells it with its
// configuration.
func TestCgroupDriverOfAnOldRuntime(t *testing.T) {
	n, s := withRuntime(t, runtimetest.Config{Lacks: []string{"RuntimeConfig"}})
	tell := func(config string) {
		s.ClearFaults()
		s.Inject("Status", runtimetest.Fault{Edit: func(m proto.Message) {
			m.(*runtimeapi.StatusResponse).Info = map[string]string{"config": config}
		}})
	}
	n.Kubelet.CgroupDriver = "systemd"
	tell(`{"containerd":{"defaultRuntimeName":"runc","runtimes":{"runc":{"options":{"SystemdCgroup":false}}}}}`)
	want(t, look(t, n, "cgroup driver"), Problem, "the runtime has cgroupfs, the configuration systemd")
	tell(`not JSON`)
	want(t, look(t, n, "cgroup driver"), OK, "does not tell")
}

func TestNetwork(t *testing.T) {
	n, s := withRuntime(t, runtimetest.Config{})
	want(t, look(t, n, "network"), Problem, n.CNI.ConfDir)
	file := write(t, filepath.Join(n.CNI.ConfDir, "10-pods.conflist"),
		`{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge","ipam":{"type":"host-local"}}]}`)
	bridge := write(t, filepath.Join(n.CNI.BinDirs[0], "bridge"), "")
	hostLocal := write(t, filepath.Join(n.CNI.BinDirs[0], "host-local"), "")
	if err := os.Chmod(bridge, 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, look(t, n, "network"), Problem, file+" needs the plugin host-local") // not executable
	if err := os.Chmod(hostLocal, 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, look(t, n, "network"), OK, "pods in "+file)
	s.SetNetworkProblem("cni plugin not initialized")
	want(t, look(t, n, "network"), Problem, "the network is not ready", "cni plugin not initialized")
}

// TestNetworkWhereTheRuntimeLooks: what the runtime tells of its directories counts.
func TestNetworkWhereTheRuntimeLooks(t *testing.T) {
	n, s := withRuntime(t, runtimetest.Config{})
	s.Inject("Status", runtimetest.Fault{Edit: func(m proto.Message) {
		m.(*runtimeapi.StatusResponse).Info = map[string]string{"config": `{"cni":{"confDir":"/elsewhere/net.d","binDir":"/elsewhere/bin"}}`}
	}})
	want(t, look(t, n, "network"), Problem, "/elsewhere/net.d")
}
