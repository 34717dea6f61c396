package node_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// host is the network of a machine.
type host struct{}

func (host) Addrs() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("10.0.0.2")}, nil }

func (host) Source(bool) (netip.Addr, error) {
	return netip.MustParseAddr("10.0.0.2"), nil
}

func (host) Lookup(context.Context, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

// joined has a node tell an API server of itself.
func joined(s *leasetest.Server) func(*node.Config) {
	client := leasetest.Direct(s)
	return func(c *node.Config) {
		c.Kubelet.RegisterWithTaints = []corev1.Taint{{Key: "new", Effect: corev1.TaintEffectNoSchedule}}
		c.Heartbeat = &node.Heartbeat{
			Leases: client.Leases(lease.DefaultNamespace), Nodes: client.Nodes(), Host: host{},
			Labels:    map[string]string{"zone": "b"},
			Addresses: nodestatus.AddressRules{NodeIPs: []netip.Addr{netip.MustParseAddr("10.0.0.2")}},
		}
	}
}

// nodeReady returns the condition Ready of node-a, empty without.
func nodeReady(s *leasetest.Server) corev1.NodeCondition {
	if n := s.Node("node-a"); n != nil {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady {
				return c
			}
		}
	}
	return corev1.NodeCondition{}
}

func TestNodeTellsHowItIs(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		m.Down()
		m.start(t, small(t), joined(s))
		pass(5 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "container runtime status check may not have completed yet") {
			t.Fatalf("Ready without a runtime is %v", c)
		}
		if err := m.Up(); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionTrue {
			t.Fatalf("Ready is %v 3 s after the runtime came", c)
		}
		n := s.Node("node-a")
		if n.Labels["zone"] != "b" || len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "new" {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
		if got := n.Status.Allocatable.Cpu().String(); got != "1500m" || n.Status.Capacity.Cpu().String() != "2" {
			t.Errorf("allocatable %v of %v", n.Status.Allocatable, n.Status.Capacity)
		}
		features := []string{
			"ExtendWebSocketsToKubelet", "InPlacePodLevelResourcesVerticalScaling", "InPlacePodVerticalScalingInitContainers",
			"RestartAllContainersOnContainerExits",
		}
		if diff := cmp.Diff(features, n.Status.DeclaredFeatures); diff != "" {
			t.Errorf("declared features (-want +got):\n%s", diff)
		}
		if a := n.Status.Addresses; len(a) != 2 || a[0].Address != "10.0.0.2" || a[1].Address != "node-a" {
			t.Errorf("addresses %v", a)
		}
		pass(time.Second)
		if len(s.Node("node-a").Status.Images) == 0 && !s.Owned(lease.DefaultNamespace, "node-a") {
			t.Error("no Lease of the Node")
		}

		m.SetNetworkProblem("cni plugin not initialized")
		pass(6 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionFalse || !strings.HasPrefix(c.Message, "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:") {
			t.Errorf("Ready without a network is %v", c)
		}
		m.SetNetworkProblem("")
		pass(6 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionTrue {
			t.Errorf("Ready with a network again is %v", c)
		}

		m.Down()
		pass(25 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionTrue {
			t.Errorf("Ready 25 s after the runtime went is %v, want it for 30 s", c)
		}
		pass(15 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionFalse || c.Message != "container runtime is down" {
			t.Errorf("Ready 40 s after the runtime went is %v", c)
		}
		pass(3 * time.Minute)
		if c := nodeReady(s); !strings.HasPrefix(c.Message, "[container runtime is down, PLEG is not healthy: pleg was last seen active 3m") {
			t.Errorf("Ready minutes after the runtime went is %v", c)
		}
		if l := s.Lease(lease.DefaultNamespace, "node-a"); time.Since(l.Spec.RenewTime.Time) > 11*time.Second {
			t.Errorf("the Lease is of %s: the runtime holds it up", l.Spec.RenewTime)
		}
	})
}

// A runtime whose answer never comes holds up neither the Lease nor what is told of it.
func TestRuntimeThatHangsHoldsUpNoHeartbeat(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		m.start(t, small(t), joined(s))
		pass(5 * time.Second)
		for _, call := range []string{"Status", "Version", "ListImages", "ListPodSandbox", "ListContainers"} {
			m.Inject(call, runtimetest.Fault{Hang: true})
		}
		for range 10 {
			pass(10 * time.Second)
			if l := s.Lease(lease.DefaultNamespace, "node-a"); time.Since(l.Spec.RenewTime.Time) > 11*time.Second {
				t.Fatalf("the Lease is of %s, it is %s", l.Spec.RenewTime, time.Now())
			}
		}
		if c := nodeReady(s); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "container runtime is down") {
			t.Errorf("Ready is %v", c)
		}
		if got := s.Node("node-a").Status.Capacity.Cpu().String(); got != "2" {
			t.Errorf("capacity of %s CPUs", got)
		}
	})
}

// A reason that grows older, as that of pods that cannot be listed does, is not news each
// time.
func TestReasonThatLastsIsToldOnceAPeriod(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		var patches atomic.Int64
		counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch {
				patches.Add(1)
			}
			s.ServeHTTP(w, r)
		})
		m.start(t, small(t), joined(s), func(c *node.Config) { c.Heartbeat.Nodes = leasetest.Direct(counted).Nodes() })
		pass(5 * time.Second)
		m.Inject("ListPodSandbox", runtimetest.Fault{Hang: true})
		pass(4 * time.Minute)
		if c := nodeReady(s); !strings.Contains(c.Message, "PLEG is not healthy: pleg was last seen active") {
			t.Fatalf("Ready is %v", c)
		}
		patches.Store(0)
		pass(10 * time.Minute)
		if n := patches.Load(); n < 50 || n > 61 {
			t.Errorf("%d reports in ten minutes, want one each 10 s", n)
		}
	})
}

func TestNodeThatIsNotRegisteredFromHere(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		m.start(t, small(t), joined(s), func(c *node.Config) { c.Kubelet.RegisterNode = new(bool) })
		pass(time.Minute)
		if n := s.Node("node-a"); n != nil {
			t.Fatalf("it was registered: %v", n)
		}
		s.SetNode("node-a", func(*corev1.Node) {})
		pass(20 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionTrue || !s.Owned(lease.DefaultNamespace, "node-a") {
			t.Errorf("Ready of a Node that somebody made is %v", c)
		}
	})
}

// lateHost is a machine that gets an address after a while.
type lateHost struct {
	host
	has atomic.Bool
}

func (h *lateHost) Addrs() ([]netip.Addr, error) {
	if h.has.Load() {
		return []netip.Addr{netip.MustParseAddr("10.0.0.3")}, nil
	}
	return h.host.Addrs()
}

// What a control plane knows of a node outlives a restart of its kubelet: that it is ready,
// and the addresses that a cloud gave it.
func TestRestartDoesNotShowAtTheNode(t *testing.T) {
	onMachine(t, func(m *machine) {
		s := leasetest.New()
		cloud := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.7"}}
		since := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
		s.SetNode("node-a", func(n *corev1.Node) {
			n.Status.Addresses = cloud
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
		})
		m.Down()
		m.start(m.t, small(m.t), joined(s), func(c *node.Config) {
			c.Heartbeat.Addresses = nodestatus.AddressRules{CloudProvider: true}
		})
		pass(2 * time.Second)
		if err := m.Up(); err != nil {
			m.t.Fatal(err)
		}
		pass(15 * time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionTrue || c.Reason != "KubeletReady" || !c.LastTransitionTime.Equal(&since) {
			m.t.Errorf("Ready is %v, want it unbroken since %s", c, since)
		}
		if diff := cmp.Diff(cloud, s.Node("node-a").Status.Addresses); diff != "" {
			m.t.Errorf("addresses (-want +got):\n%s", diff)
		}
	})
}

// An address that comes late, or goes, costs no heartbeat.
func TestNodeWaitsForItsAddress(t *testing.T) {
	onMachine(t, func(m *machine) {
		s, late := leasetest.New(), &lateHost{}
		m.start(m.t, small(m.t), joined(s), func(c *node.Config) {
			c.Heartbeat.Host, c.Heartbeat.Addresses.NodeIPs = late, []netip.Addr{netip.MustParseAddr("10.0.0.3")}
		})
		pass(time.Minute)
		if l := s.Lease(lease.DefaultNamespace, "node-a"); l == nil || time.Since(l.Spec.RenewTime.Time) > 11*time.Second {
			m.t.Fatalf("Lease %v", l)
		}
		if a := s.Node("node-a").Status.Addresses; len(a) != 0 || !m.log.has("node IP 10.0.0.3 is not an address of this machine") {
			m.t.Errorf("addresses %v, want none yet and the reason in the log", a)
		}
		late.has.Store(true)
		pass(11 * time.Second)
		if a := s.Node("node-a").Status.Addresses; len(a) != 2 || a[0].Address != "10.0.0.3" {
			m.t.Errorf("addresses %v, want 10.0.0.3", a)
		}
	})
}

// When the machine goes down, pods end in the order of their priorities, new ones are
// refused, and the node says so.
func TestMachineThatGoesDown(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		power := shutdown.NewTrigger()
		critical := asks("dns", "100m", 2_000_000_000)
		m.manifests.write(newPod("web"), critical)
		k := m.start(t, small(t), joined(s), func(c *node.Config) {
			c.Power = power
			c.Kubelet.ShutdownGracePeriod = metav1.Duration{Duration: 30 * time.Second}
			c.Kubelet.ShutdownGracePeriodCriticalPods = metav1.Duration{Duration: 10 * time.Second}
		})
		pass(5 * time.Second)
		if n := m.readySandboxes(t); n != 2 {
			t.Fatalf("%d pods run, want 2", n)
		}
		m.ForgetCalls()
		power.Pull()
		pass(100 * time.Millisecond)
		m.manifests.write(newPod("web"), critical, newPod("late"))
		<-power.Released()
		pass(time.Second)
		if c := nodeReady(s); c.Status != corev1.ConditionFalse || c.Message != "node is shutting down" {
			t.Errorf("Ready is %v", c)
		}
		want := map[string]string{"web": "Failed Terminated", "dns": "Failed Terminated", "late": "Failed NodeShutdown"}
		for pod, phase := range k.phases() {
			if want[pod] != phase {
				t.Errorf("%s is %s, want %s", pod, phase, want[pod])
			}
		}
		if web := k.pods()["web"].Status; web.Message != shutdown.PodMessage || web.Conditions == nil {
			t.Errorf("status of web %v", web)
		}
		if n := m.readySandboxes(t); n != 0 {
			t.Errorf("%d pods run, want none", n)
		}
	})
}

// Without --node-ip a node has the address that its name has, and its pods have that of the
// node, not the one of the default route.
func TestPodsHaveTheAddressOfTheirNode(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		web := newPod("web")
		web.Spec.HostNetwork = true
		m.manifests.write(web)
		k := m.start(t, small(t), joined(s), func(c *node.Config) {
			c.Heartbeat.Addresses.NodeIPs, c.Host.IPs = nil, []string{"192.0.2.9"}
		})
		pass(time.Minute + 15*time.Second)
		status, a := k.pods()["web"].Status, s.Node("node-a").Status.Addresses
		if len(a) == 0 || a[0].Type != corev1.NodeInternalIP || a[0].Address == "192.0.2.9" {
			t.Fatalf("addresses of the Node are %v", a)
		}
		if status.HostIP != a[0].Address || status.PodIP != a[0].Address {
			t.Errorf("hostIP %q, podIP %q, want %q", status.HostIP, status.PodIP, a[0].Address)
		}
		k.end()
	})
}

// A pod may want a label of the Node that somebody else has set, a moment ago.
func TestPodThatWantsALabelOfTheNode(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := leasetest.New()
		k := m.start(t, small(t), joined(s), func(c *node.Config) { c.Host.IPs = []string{"192.0.2.9"} })
		pass(15 * time.Second)
		s.SetNode("node-a", func(n *corev1.Node) { n.Labels["disk"] = "fast" })
		wants, never := newPod("wants"), newPod("never")
		wants.Spec.NodeSelector = map[string]string{"disk": "fast", "zone": "b"}
		never.Spec.NodeSelector = map[string]string{"disk": "slow"}
		m.manifests.write(wants, never)
		pass(3 * time.Second)
		got := k.phases()
		if ip := k.pods()["wants"].Status.HostIP; ip != "10.0.0.2" {
			t.Errorf("hostIP %q, want that of the node", ip)
		}
		if got["wants"] != "Running" || got["never"] != "Failed NodeAffinity" {
			t.Errorf("phases %v, want wants to run and never to fail for NodeAffinity", got)
		}
	})
}

func TestNewRefusesHalfAHeartbeat(t *testing.T) {
	client := leasetest.Direct(leasetest.New())
	for want, h := range map[string]*node.Heartbeat{
		"node: Config.Heartbeat.Leases is nil, want the Leases of kube-node-lease": {Nodes: client.Nodes()},
		"node: Config.Heartbeat.Nodes is nil, want the API of Nodes":               {Leases: client.Leases("ns")},
		"node: Config.Heartbeat.Addresses: node IP 127.0.0.1 is a loopback address, which other nodes cannot reach": {
			Leases: client.Leases("ns"), Nodes: client.Nodes(),
			Addresses: nodestatus.AddressRules{NodeIPs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
		},
	} {
		_, err := node.New(node.Config{Kubelet: &kubeletconfig.KubeletConfiguration{}, Name: "a", Heartbeat: h})
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
