package node_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// away is an API server of Leases and Nodes that may not answer.
type away struct {
	*leasetest.Server
	down atomic.Bool
}

func (a *away) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.down.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	a.Server.ServeHTTP(w, r)
}

// joined has a node belong to the cluster of this server.
func (a *away) joined(c *node.Config) {
	joined(a.Server)(c)
	client := leasetest.Direct(a)
	c.Heartbeat.Leases, c.Heartbeat.Nodes = client.Leases(lease.DefaultNamespace), client.Nodes()
}

// selects returns a pod for nodes with a label.
func selects(pod *corev1.Pod, key, value string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{key: value}
	return pod
}

// TestNodeThatIsNotKnownYet has the labels it is to be registered with. A pod that wants
// others waits until the Node is known, and fails only then.
func TestNodeThatIsNotKnownYet(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s := &away{Server: leasetest.New()}
		k := m.start(t, small(t), s.joined)
		pass(15 * time.Second)
		s.SetNode("node-a", func(n *corev1.Node) { n.Labels["disk"] = "fast" })
		k.end()
		s.down.Store(true)
		huge := selects(asks("huge", "1600m", 0), "disk", "fast")
		m.manifests.write(selects(newPod("own"), "zone", "b"), selects(newPod("set"), "disk", "fast"), selects(newPod("never"), "disk", "slow"), huge)
		k = m.start(t, small(t), s.joined)
		pass(2 * time.Minute)
		for name, want := range map[string]string{"own": "Running", "set": "Pending InvalidNodeInfo", "never": "Pending InvalidNodeInfo", "huge": "Failed OutOfcpu"} {
			if got := k.phases()[name]; got != want {
				t.Errorf("%s is %s while the API server is away, want %s", name, got, want)
			}
		}
		s.down.Store(false)
		pass(time.Minute)
		for name, want := range map[string]string{"own": "Running", "set": "Running", "never": "Failed NodeAffinity"} {
			if got := k.phases()[name]; got != want {
				t.Errorf("%s is %s once the API server has answered, want %s", name, got, want)
			}
		}
	})
}

// TestStandaloneNodeHasLabels: those of its configuration.
func TestStandaloneNodeHasLabels(t *testing.T) {
	onMachine(t, func(m *machine) {
		m.manifests.write(selects(newPod("edge"), "site", "edge-1"), selects(newPod("other"), "site", "edge-2"))
		k := m.start(m.t, func(c *node.Config) { c.Labels = map[string]string{"site": "edge-1"} })
		pass(5 * time.Second)
		if got := k.phases(); got["edge"] != "Running" || got["other"] != "Failed NodeAffinity" {
			m.t.Errorf("phases %v, want that the pod for this site runs alone", got)
		}
	})
}

// TestPodOfTheStoreThatWantsALabel runs after a reboot without the API server, on a runtime
// that has nothing left: it was bound for the labels that the node had.
func TestPodOfTheStoreThatWantsALabel(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		pods, nodes := newAPIServer(), &away{Server: leasetest.New()}
		pods.bind(selects(apiPod("web"), "disk", "fast"))
		edit := []func(*node.Config){small(t), nodes.joined, pods.inCluster, storing}
		k := m.start(t, edit...)
		pass(15 * time.Second)
		nodes.SetNode("node-a", func(n *corev1.Node) { n.Labels["disk"] = "fast" })
		pods.bind(selects(apiPod("db"), "disk", "fast"))
		pass(30 * time.Second)
		m.wantRunning("db")
		m.reboot(k)
		m.wipe(t)
		pods.setDown(true)
		nodes.down.Store(true)
		m.start(t, edit...)
		pass(2 * time.Minute)
		m.wantRunning("db")
		pods.setDown(false)
		nodes.down.Store(false)
		pass(2 * time.Minute)
		m.wantRunning("db")
		if got := pods.phase("uid-db"); got != corev1.PodRunning {
			t.Errorf("the API server knows phase %s of db", got)
		}
	})
}

// wipe has the runtime forget all pods, as some do at a boot.
func (m *machine) wipe(t *testing.T) {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	list, err := c.ListPodSandbox(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, sb := range list {
		if err := c.RemovePodSandbox(t.Context(), sb.GetId()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStrictGroups: the runtime says whether it has them, with and without an API server,
// and its newest word counts. As long as it does not say, pods wait.
func TestStrictGroups(t *testing.T) {
	strict := func(name string) *corev1.Pod {
		pod := newPod(name)
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroupsPolicy: new(corev1.SupplementalGroupsPolicyStrict)}
		return pod
	}
	can := func(groups bool) runtimetest.Fault {
		return runtimetest.Fault{Edit: func(resp proto.Message) {
			resp.(*runtimeapi.StatusResponse).Features = &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: groups}
		}}
	}
	for name, edit := range map[string]func(*node.Config){"standalone": func(*node.Config) {}, "cluster": joined(leasetest.New())} {
		t.Run(name, func(t *testing.T) {
			onMachine(t, func(m *machine) {
				t := m.t
				m.Inject("Status", runtimetest.Fault{Err: status.Error(codes.Unavailable, "starting")})
				m.manifests.write(strict("web"))
				k := m.start(t, edit)
				pass(30 * time.Second)
				if got := k.phases()["web"]; got != "Pending InvalidNodeInfo" {
					t.Errorf("web is %s before the runtime has said what it can do, want it to wait", got)
				}
				m.ClearFaults()
				m.Inject("Status", can(true))
				pass(30 * time.Second)
				if got := k.phases()["web"]; got != "Running" {
					t.Errorf("web is %s, want Running", got)
				}
				m.ClearFaults()
				m.Inject("Status", can(false))
				pass(10 * time.Second)
				m.manifests.write(strict("web"), strict("late"))
				pass(10 * time.Second)
				if got := k.phases()["late"]; got != "Failed SupplementalGroupsPolicyNotSupported" {
					t.Errorf("late is %s on a runtime that can not any more, want it to be refused", got)
				}
			})
		})
	}
}
