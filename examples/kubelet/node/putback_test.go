package node_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/staticpods"
)

// deliveries is a source whose sets the test hands over one by one.
type deliveries chan staticpods.Set

func (d deliveries) Run(ctx context.Context, set func(staticpods.Set)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-d:
			set(s)
		}
	}
}

func (d deliveries) Statuses() []staticpods.FileStatus { return nil }

// TestManifestThatIsPutBackRestartsItsPod: the pod ends with all of its grace period and
// starts anew, once, and its containers count that.
func TestManifestThatIsPutBackRestartsItsPod(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		source := make(deliveries)
		k := m.start(t, func(c *node.Config) {
			c.Source = func(node.AdoptUID) (node.Source, error) { return source, nil }
		})
		web, other := newPod("web"), newPod("other")
		source <- staticpods.Set{Pods: []*corev1.Pod{web, other}}
		pass(5 * time.Second)
		before := m.containers(t)
		source <- staticpods.Set{Pods: []*corev1.Pod{web, other}, PutBack: []types.UID{web.UID}}
		pass(time.Minute)
		after := m.containers(t)
		if after["web"] == before["web"] || after["other"] != before["other"] {
			t.Errorf("containers before %v, after %v; want another one of web alone", before, after)
		}
		for name, want := range map[string]int32{"web": 1, "other": 0} {
			pod := k.pods()[name]
			if s := pod.Status.ContainerStatuses; pod.Status.Phase != corev1.PodRunning || len(s) != 1 || s[0].RestartCount != want {
				t.Errorf("%s is %s, containers %+v; want Running after %d restarts", name, pod.Status.Phase, s, want)
			}
		}
		m.ForgetCalls()
		source <- staticpods.Set{Pods: []*corev1.Pod{web, other}}
		pass(time.Minute)
		m.unchanged(t)
		k.end()
	})
}
