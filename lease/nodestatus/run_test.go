package nodestatus_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/lease/leasetest"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// bench is a Reporter with its server, inside a synctest bubble.
type bench struct {
	server   *leasetest.Server
	reporter *nodestatus.Reporter

	mu sync.Mutex // guards the fields below
	// reasons is why the node is not ready, facts what it reports.
	reasons []string
	facts   nodestatus.Facts
	// down makes the server unreachable; refuse answers writes with 403; lag says that
	// its cache does not have the Node.
	down, refuse, lag bool
	requests          []string
	events            []string
	failures          int
}

func (b *bench) set(change func(*bench)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// ServeHTTP is the way to the server.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	b.requests = append(b.requests, r.Method)
	down, refuse := b.down, b.refuse && r.Method != http.MethodGet
	lag := b.lag && r.URL.Query().Has("resourceVersion")
	b.mu.Unlock()
	switch {
	case lag:
		leasetest.New().ServeHTTP(w, r) // one without Nodes
	case down:
		<-r.Context().Done()
	case refuse:
		http.Error(w, "no", http.StatusForbidden)
	default:
		b.server.ServeHTTP(w, r)
	}
}

func (b *bench) ready() *corev1.NodeCondition {
	n := b.server.Node("node-a")
	if n == nil {
		return nil
	}
	for i, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return &n.Status.Conditions[i]
		}
	}
	return nil
}

// count returns how many requests of a method there were, and forgets them.
func (b *bench) count(method string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, m := range b.requests {
		if m == method {
			n++
		}
	}
	b.requests = nil
	return n
}

// newBench starts a Reporter; prepare may change its server and configuration.
func newBench(t *testing.T, prepare func(*bench, *nodestatus.Config)) *bench {
	t.Helper()
	b := &bench{server: leasetest.New()}
	b.facts.Status.Capacity = resources()
	cfg := nodestatus.Config{
		Name:         "node-a",
		Registration: &nodestatus.Registration{},
		Facts: func(context.Context) (nodestatus.Facts, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.facts, nil
		},
		NotReady: func() []string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.reasons
		},
		Hooks: nodestatus.Hooks{
			Event:  func(e nodestatus.Event) { b.set(func(b *bench) { b.events = append(b.events, e.Reason) }) },
			Failed: func(int, error) { b.set(func(b *bench) { b.failures++ }) },
		},
	}
	if prepare != nil {
		prepare(b, &cfg)
	}
	var err error
	if b.reporter, err = nodestatus.New(leasetest.Direct(b).Nodes(), cfg); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := b.reporter.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return b
}

func TestNodeIsRegisteredWithItsStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		uid, err := b.reporter.UID(t.Context())
		if err != nil || uid != b.server.NodeUID("node-a") {
			t.Fatalf("UID %q, %v; want that of the Node", uid, err)
		}
		if c := b.ready(); c == nil || c.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %v", c)
		}
		if n := b.count(http.MethodPatch); n != 0 {
			t.Errorf("%d patches beside the creation", n)
		}
	})
}

func TestReadyIsReportedAtOnceAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench, _ *nodestatus.Config) { b.reasons = []string{"starting"} })
		pass(3 * time.Second)
		if c := b.ready(); c == nil || c.Status != corev1.ConditionFalse || c.Message != "starting" {
			t.Fatalf("Ready is %v, want False: starting", c)
		}
		b.set(func(b *bench) { b.reasons = nil })
		pass(150 * time.Millisecond)
		if c := b.ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %v 150 ms after the node is", c)
		}
	})
}

// A server that refuses the Node is not asked again and again.
func TestServerThatRefusesTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench, _ *nodestatus.Config) { b.refuse = true })
		pass(2 * time.Minute)
		if n := b.count(http.MethodPost); n < 40 || n > 80 {
			t.Errorf("%d attempts in two minutes, want five every 10 s", n)
		}
		b.set(func(b *bench) { b.refuse = false })
		pass(8 * time.Second)
		if c := b.ready(); c == nil || c.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %v 8 s after the server takes the Node", c)
		}
	})
}

func TestUnchangedStatusIsSentEveryFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(2 * time.Minute)
		b.count("")
		start := time.Now()
		var heartbeats []time.Duration
		last := b.ready().LastHeartbeatTime.Time
		for range 3600 {
			pass(time.Second)
			if h := b.ready().LastHeartbeatTime.Time; !h.Equal(last) {
				heartbeats = append(heartbeats, h.Sub(start))
				last = h
			}
		}
		if n := len(heartbeats); n < 10 || n > 13 {
			t.Errorf("%d reports in an hour, want one every 5 minutes: %v", n, heartbeats)
		}
		if n := b.count(http.MethodPatch); n != len(heartbeats) {
			t.Errorf("%d patches, want %d", n, len(heartbeats))
		}
	})
}

func TestChangesAreReportedWithinAPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(25 * time.Second)
		b.set(func(b *bench) { b.reasons = []string{"container runtime is down"} })
		at := time.Now()
		pass(11 * time.Second)
		c := b.ready()
		if c.Status != corev1.ConditionFalse || c.Reason != "KubeletNotReady" || c.Message != "container runtime is down" {
			t.Errorf("Ready is %v", c)
		}
		if d := c.LastTransitionTime.Sub(at); d < 0 || d > 11*time.Second {
			t.Errorf("the transition is %s after the change", d)
		}
		// Later reports do not move the time of the transition.
		moved := c.LastTransitionTime
		pass(10 * time.Minute)
		if c := b.ready(); c.LastTransitionTime != moved {
			t.Errorf("the transition moved from %s to %s", moved, c.LastTransitionTime)
		}
		b.set(func(b *bench) { b.reasons = nil })
		b.reporter.Wake()
		synctest.Wait()
		if c := b.ready(); c.Status != corev1.ConditionTrue || c.LastTransitionTime == moved {
			t.Errorf("Ready after Wake is %v", c)
		}
		want := []string{"NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID", "NodeNotReady", "NodeReady"}
		b.set(func(b *bench) {
			if diff := cmp.Diff(want, b.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	})
}

func TestServerThatWasAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(25 * time.Second)
		b.set(func(b *bench) { b.down = true })
		pass(5 * time.Minute)
		// Meanwhile the control plane gave the node up.
		b.server.SetNode("node-a", func(n *corev1.Node) {
			for i := range n.Status.Conditions {
				c := &n.Status.Conditions[i]
				c.Status, c.Reason, c.Message = corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status."
				c.LastTransitionTime = metav1.NewTime(time.Now().Truncate(time.Second))
			}
		})
		b.set(func(b *bench) { b.down = false; b.events = nil })
		pass(25 * time.Second)
		if c := b.ready(); c.Status != corev1.ConditionTrue || c.Message != "kubelet is posting ready status" {
			t.Errorf("Ready is %v 25 s after the server is back", c)
		}
		b.set(func(b *bench) {
			if !slices.Contains(b.events, "NodeReady") {
				t.Errorf("events %v, want NodeReady among them", b.events)
			}
			if b.failures == 0 {
				t.Error("no failure was told")
			}
		})
	})
}

// What is told after the server was away is how the node is by then.
func TestNodeThatChangesWhileTheServerDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(15 * time.Second)
		// The next report begins, and hangs; in the middle of it the node fails.
		b.set(func(b *bench) { b.down = true })
		pass(8 * time.Second)
		b.set(func(b *bench) { b.down, b.reasons = false, []string{"container runtime is down"} })
		b.server.SetNode("node-a", func(n *corev1.Node) {
			n.Status.Conditions[3].Status = corev1.ConditionUnknown
		})
		for b.ready().Status == corev1.ConditionUnknown {
			pass(100 * time.Millisecond)
		}
		if c := b.ready(); c.Status != corev1.ConditionFalse || c.Message != "container runtime is down" {
			t.Errorf("the first thing that is told is %v", c)
		}
	})
}

// A cache that lags is no deletion.
func TestServerThatHasNotHeardOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(15 * time.Second)
		b.count("")
		b.set(func(b *bench) { b.lag = true })
		pass(time.Minute)
		if n := b.count(http.MethodPost); n != 0 {
			t.Errorf("the Node was registered %d more times", n)
		}
		b.set(func(b *bench) {
			if b.failures > 0 {
				t.Errorf("%d failures were told", b.failures)
			}
		})
	})
}

func TestNodeThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ *bench, c *nodestatus.Config) { c.Registration.Labels = map[string]string{"zone": "b"} })
		pass(25 * time.Second)
		before := b.server.NodeUID("node-a")
		b.server.DeleteNode("node-a")
		pass(11 * time.Second)
		n := b.server.Node("node-a")
		if n == nil || n.UID == before || n.Labels["zone"] != "b" {
			t.Fatalf("Node after its deletion: %v", n)
		}
		if uid, err := b.reporter.UID(t.Context()); err != nil || uid != n.UID {
			t.Errorf("UID %q, %v; want the new Node's", uid, err)
		}
		if c := b.ready(); c.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %v", c)
		}
	})
}

func TestNodeThatIsDeletedWhileTheMachineGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(25 * time.Second)
		b.set(func(b *bench) { b.facts.GoingDown = true })
		b.server.DeleteNode("node-a")
		pass(5 * time.Minute)
		if n := b.server.Node("node-a"); n != nil {
			t.Errorf("registered again while going down: %v", n)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if uid, err := b.reporter.UID(ctx); err == nil {
			t.Errorf("UID %q of a Node that is deleted", uid)
		}
	})
}

func TestNodeThatOthersRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(_ *bench, c *nodestatus.Config) { c.Registration = nil })
		pass(time.Minute)
		if n := b.server.Node("node-a"); n != nil {
			t.Fatalf("registered all the same: %v", n)
		}
		b.server.SetNode("node-a", func(n *corev1.Node) { n.Labels = map[string]string{"by": "other"} })
		pass(11 * time.Second)
		if c := b.ready(); c == nil || c.Status != corev1.ConditionTrue {
			t.Errorf("Ready is %v", c)
		}
		if n := b.server.Node("node-a"); n.Labels["by"] != "other" {
			t.Errorf("labels %v", n.Labels)
		}
	})
}

func TestNodeThatExistsIsReconciledOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench, c *nodestatus.Config) {
			c.Registration.ControllerAttach = true
			c.Registration.Taints = []corev1.Taint{{Key: "new", Effect: "NoSchedule"}}
			b.server.SetNode("node-a", func(n *corev1.Node) {
				n.Labels = map[string]string{"kubernetes.io/hostname": "old", "team": "x"}
				n.Spec.Taints = []corev1.Taint{{Key: "old", Effect: "NoSchedule"}}
			})
		})
		pass(time.Second)
		n := b.server.Node("node-a")
		if n.Labels["kubernetes.io/hostname"] != "node-a" || n.Labels["team"] != "x" || len(n.Annotations) != 1 {
			t.Errorf("labels %v, annotations %v", n.Labels, n.Annotations)
		}
		if len(n.Spec.Taints) != 1 || n.Spec.Taints[0].Key != "old" {
			t.Errorf("taints %v, want its own", n.Spec.Taints)
		}
		// What is changed later is up to whoever changes it.
		b.server.SetNode("node-a", func(n *corev1.Node) { n.Labels["kubernetes.io/hostname"] = "mine" })
		pass(time.Minute)
		if got := b.server.Node("node-a").Labels["kubernetes.io/hostname"]; got != "mine" {
			t.Errorf("hostname %q, want it left alone", got)
		}
	})
}

func TestEventsComeAfterTheServerHasTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(25 * time.Second)
		b.set(func(b *bench) { b.events, b.refuse, b.reasons = nil, true, []string{"x"} })
		pass(2 * time.Minute)
		b.set(func(b *bench) {
			if len(b.events) > 0 {
				t.Errorf("events %v of a status that the server does not have", b.events)
			}
			b.refuse = false
		})
		pass(25 * time.Second)
		b.set(func(b *bench) {
			if diff := cmp.Diff([]string{"NodeNotReady"}, b.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	})
}

func TestCordonIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(15 * time.Second)
		b.set(func(b *bench) { b.events = nil })
		for _, cordoned := range []bool{true, false} {
			b.server.SetNode("node-a", func(n *corev1.Node) { n.Spec.Unschedulable = cordoned })
			pass(11 * time.Second)
		}
		b.set(func(b *bench) {
			if diff := cmp.Diff([]string{"NodeNotSchedulable", "NodeSchedulable"}, b.events); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	})
}

func TestFactsThatCannotBeCollectedLeaveTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := false
		var log bytes.Buffer
		b := newBench(t, func(b *bench, c *nodestatus.Config) {
			c.Log = slog.New(slog.NewTextHandler(&log, nil))
			c.Facts = func(ctx context.Context) (nodestatus.Facts, error) {
				b.mu.Lock()
				facts, hung := b.facts, hang
				b.mu.Unlock()
				if hung {
					<-ctx.Done()
					return nodestatus.Facts{}, errors.Join(errors.New("images"), ctx.Err())
				}
				return facts, nil
			}
		})
		pass(15 * time.Second)
		b.set(func(b *bench) { hang, b.reasons = true, []string{"container runtime is down"} })
		pass(30 * time.Second)
		n := b.server.Node("node-a")
		if c := b.ready(); c.Status != corev1.ConditionFalse || c.Message != "container runtime is down" {
			t.Errorf("Ready is %v", c)
		}
		if cpu := n.Status.Capacity.Cpu(); cpu.String() != "4" {
			t.Errorf("capacity %v, want it kept", n.Status.Capacity)
		}
		synctest.Wait()
		if !strings.Contains(log.String(), "images") {
			t.Errorf("log:\n%s\nwant what could not be collected in it", log.String())
		}
	})
}

func TestNewRefusesWrongConfigs(t *testing.T) {
	client := leasetest.Direct(leasetest.New()).Nodes()
	facts := func(context.Context) (nodestatus.Facts, error) { return nodestatus.Facts{}, nil }
	tests := []struct {
		name   string
		client nodestatus.Client
		cfg    nodestatus.Config
		want   string
	}{
		{"no client", nil, nodestatus.Config{Name: "a", Facts: facts}, "nodestatus: the Client is nil"},
		{"no name", client, nodestatus.Config{Facts: facts}, "nodestatus: Config.Name is empty, want the name of the Node"},
		{"no facts", client, nodestatus.Config{Name: "a"}, "nodestatus: Config.Facts is nil, want what collects the node's facts"},
		{"period", client, nodestatus.Config{Name: "a", Facts: facts, Period: -1}, "nodestatus: Config.Period is -1ns, must not be negative"},
		{
			"label", client,
			nodestatus.Config{Name: "a", Facts: facts, Registration: &nodestatus.Registration{Labels: map[string]string{"a": "b c"}}},
			`nodestatus: Config.Registration: label a=b c: value "b c": `,
		},
		{
			"taint", client,
			nodestatus.Config{Name: "a", Facts: facts, Registration: &nodestatus.Registration{Taints: []corev1.Taint{{Key: "a"}}}},
			`nodestatus: Config.Registration: taint "a": effect "", want `,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := nodestatus.New(tt.client, tt.cfg)
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("error %v, want %s", err, tt.want)
			}
		})
	}
}

// pass lets fake time pass.
func pass(d time.Duration) { <-time.After(d) }
