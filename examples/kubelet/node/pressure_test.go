package node_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/lease/nodestatus/shutdown"
)

// gauge has 1 GiB of 4 left, but for some looks at it, at which little is.
type gauge struct {
	mu  sync.Mutex
	low int
}

func (g *gauge) runShort(looks int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.low = looks
}

func (g *gauge) Observe() (eviction.Observations, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := resource.MustParse("1Gi")
	if g.low > 0 {
		g.low--
		left = resource.MustParse("91Mi")
	}
	return eviction.Observations{eviction.MemoryAvailable: {Available: left, Capacity: resource.MustParse("4Gi"), Time: time.Now()}}, nil
}

func (*gauge) Disks() (eviction.Disks, error) { return eviction.OneDisk, nil }

// TestPodsAreEvictedWhenMemoryRunsShort: one pod goes, by priority, never a static one;
// meanwhile no other pod without requests starts.
func TestPodsAreEvictedWhenMemoryRunsShort(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s, g := newAPIServer(), &gauge{}
		m.manifests.write(newPod("static"))
		first, second := apiPod("first"), apiPod("second")
		first.Spec.Priority, second.Spec.Priority = new(int32(1)), new(int32(2))
		s.bind(first, second)
		k := m.start(t, s.inCluster, func(c *node.Config) { c.Gauge = g })
		pass(20 * time.Second)
		g.runShort(1)
		pass(11 * time.Second)
		late := apiPod("late")
		s.bind(late)
		pass(10 * time.Second)
		want := map[string]string{"static": "Running", "first": "Failed Evicted", "second": "Running", "late": "Pending Evicted"}
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases under pressure (-want +got):\n%s", diff)
		}
		const message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 91Mi. Container app was using 8Mi, request is 0, has larger consumption of memory. "
		status := k.pods()["first"].Status
		if status.Message != message {
			t.Errorf("message is %q, want %q", status.Message, message)
		}
		if c := conditionOf(status, corev1.DisruptionTarget); c.Status != corev1.ConditionTrue || c.Reason != corev1.PodReasonTerminationByKubelet {
			t.Errorf("the pod's condition DisruptionTarget is %+v", c)
		}
		if code, page := k.get("unix", "/node?output=json"); code != http.StatusOK || !strings.Contains(page, `"MemoryPressure"`) {
			t.Errorf("the page of the node answers %d and does not tell of the pressure:\n%s", code, page)
		}
		if _, page := k.get("unix", "/metrics"); !strings.Contains(page, `kubelet_evictions{eviction_signal="memory.available"} 1`+"\n") {
			t.Error("the eviction was not counted")
		}
		for _, event := range [][]string{{"reason=Evicted", "pod=default/first"}, {"reason=EvictionThresholdMet"}} {
			if !m.log.has(append(event, "msg=event")...) {
				t.Errorf("no event %v", event)
			}
		}
		annotations := map[string]string{
			eviction.AnnotationStarvedResource: "memory", eviction.AnnotationOffendingContainers: "app", eviction.AnnotationOffendingContainersUsage: "8Mi",
		}
		if diff := cmp.Diff(annotations, s.lastEvicted()); diff != "" {
			t.Errorf("annotations of the event Evicted (-want +got):\n%s", diff)
		}
		pass(6 * time.Minute)
		want["late"] = "Failed Evicted" // Whoever wants it makes another, which starts.
		last := apiPod("last")
		s.bind(last)
		pass(10 * time.Second)
		want["last"] = "Running"
		if diff := cmp.Diff(want, k.phases()); diff != "" {
			t.Errorf("phases five minutes later (-want +got):\n%s", diff)
		}
	})
}

// TestPodsAreEvictedWhileTheAPIServerIsAway: one after the other as soon as each is gone,
// also though nobody can be told; a machine that goes down waits for none of them. What they
// leave goes when the API server knows.
func TestPodsAreEvictedWhileTheAPIServerIsAway(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		s, g, power := newAPIServer(), &gauge{}, shutdown.NewTrigger()
		s.bind(apiPod("a"), apiPod("b"), apiPod("c"), apiPod("d"))
		m.start(t, s.inCluster, func(c *node.Config) {
			c.Gauge, c.Power = g, power
			c.Kubelet.ShutdownGracePeriod = metav1.Duration{Duration: 120 * time.Second}
		})
		pass(20 * time.Second)
		s.setDown(true)
		g.runShort(1000)
		pass(25 * time.Second)
		m.wantRunning()
		if m.log.has("level=WARN", "pod could not be synced") || m.log.has("evicted pods are not gone yet") {
			t.Error("the log complains of pods that are gone")
		}
		pass(2 * time.Minute)
		if len(m.left(t)) == 0 {
			t.Error("nothing is left of the pods although nobody knows how they ended")
		}
		g.runShort(0)
		s.setDown(false)
		pass(2 * time.Minute)
		if left := m.left(t); len(left) != 0 || s.phase("uid-a") != corev1.PodFailed {
			t.Errorf("left over: %q, pod a is %s at the API server", left, s.phase("uid-a"))
		}
		pass(6 * time.Minute) // until the pressure is over
		s.bind(apiPod("e"))
		pass(20 * time.Second)
		m.wantRunning("e")
		s.setDown(true)
		g.runShort(1)
		pass(15 * time.Second)
		m.wantRunning()
		began := time.Now()
		power.Pull()
		<-power.Released()
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the machine was held up for %s by a pod that has ended", took)
		}
	})
}

func conditionOf(s corev1.PodStatus, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range s.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}
