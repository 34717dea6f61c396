package nodestatus_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// before is a Node as a process that ran before left it: ready.
func before(n *corev1.Node) {
	n.Status.NodeInfo.BootID = "boot-1"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
}

func (b *bench) told(event string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Contains(b.events, event)
}

// TestRestartDoesNotShow: just after the start of a process nobody knows how the node is.
func TestRestartDoesNotShow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench, _ *nodestatus.Config) {
			b.server.SetNode("node-a", before)
			b.reasons = []string{"container runtime status check may not have completed yet"}
		})
		pass(2 * time.Second)
		if n := b.count(http.MethodPatch); n > 0 {
			t.Errorf("%d reports before the node knows how it is", n)
		}
		b.set(func(b *bench) { b.reasons = nil })
		pass(150 * time.Millisecond)
		if n := b.count(http.MethodPatch); n != 1 {
			t.Errorf("%d reports when the node knows that it is ready, want one", n)
		}
		if c := b.ready(); c.Status != corev1.ConditionTrue || b.told("NodeNotReady") || b.told("NodeReady") {
			t.Errorf("Ready is %v, events %v", c, b.events)
		}
		// Later on it is told within a period.
		b.set(func(b *bench) { b.reasons = []string{"container runtime is down"} })
		b.reporter.Wake()
		synctest.Wait()
		if c := b.ready(); c.Status != corev1.ConditionFalse {
			t.Errorf("Ready is %v", c)
		}
	})
}

func TestNodeThatIsNotReadyAfterAStartIsToldSo(t *testing.T) {
	tests := []struct {
		name   string
		node   func(*corev1.Node)
		facts  func(*nodestatus.Facts)
		within time.Duration
	}{
		{"within a period", before, func(*nodestatus.Facts) {}, 11 * time.Second},
		{"after a boot at once", before, func(f *nodestatus.Facts) { f.Status.NodeInfo.BootID = "boot-2" }, 0},
		{"going down at once", before, func(f *nodestatus.Facts) { f.GoingDown = true }, 0},
		{"given up before at once", func(n *corev1.Node) {
			before(n)
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}, func(*nodestatus.Facts) {}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(b *bench, _ *nodestatus.Config) {
					b.server.SetNode("node-a", tt.node)
					b.facts.Status.NodeInfo.BootID = "boot-1"
					tt.facts(&b.facts)
					b.reasons = []string{"container runtime is down"}
				})
				pass(tt.within)
				synctest.Wait()
				if c := b.ready(); c.Status != corev1.ConditionFalse || c.Message != "container runtime is down" {
					t.Errorf("Ready is %v after %s", c, tt.within)
				}
			})
		})
	}
}

// TestAddressesOfACloudOutliveARestart: the first facts of a process are collected before
// it knows the Node.
func TestAddressesOfACloudOutliveARestart(t *testing.T) {
	cloud := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.2"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.7"}}
	own := []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "node-a"}}
	for name, tt := range map[string]struct{ has, want []corev1.NodeAddress }{
		"set by the cloud": {cloud, cloud},
		"not set yet":      {nil, own},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(b *bench, c *nodestatus.Config) {
					rules := nodestatus.AddressRules{Name: "node-a", CloudProvider: true}
					b.server.SetNode("node-a", func(n *corev1.Node) { n.Status.Addresses = tt.has })
					c.Facts = func(ctx context.Context) (nodestatus.Facts, error) {
						addresses, err := rules.Addresses(ctx, host{})
						return nodestatus.Facts{Status: corev1.NodeStatus{Addresses: addresses}, Provisional: rules.CloudProvider}, err
					}
				})
				pass(time.Minute)
				if diff := cmp.Diff(tt.want, b.server.Node("node-a").Status.Addresses); diff != "" {
					t.Errorf("addresses (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// TestStoreThatWasPutBack: versions of objects are lower then than those that were known.
func TestStoreThatWasPutBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		pass(25 * time.Second)
		b.server.SetNode("node-a", func(n *corev1.Node) {
			n.ResourceVersion = "0"
			n.Status.Capacity = nil
		})
		pass(11 * time.Second)
		if cpu := b.server.Node("node-a").Status.Capacity.Cpu(); cpu.String() != "4" {
			t.Errorf("the Node has %s CPUs, want what it had", cpu)
		}
	})
}
