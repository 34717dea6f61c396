package nodestatus_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/lease/leasetest"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

func TestPatchHoldsOnlyWhatChanged(t *testing.T) {
	old := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "u", Labels: map[string]string{"a": "b", "gone": "x"}}}
	old.Status = corev1.NodeStatus{
		Capacity:   corev1.ResourceList{"cpu": resource.MustParse("1"), "hugepages-1Gi": resource.MustParse("1Gi")},
		Conditions: []corev1.NodeCondition{{Type: "Foreign", Status: "True"}, {Type: "Ready", Status: "True"}},
		Addresses:  []corev1.NodeAddress{{Type: "InternalIP", Address: "10.0.0.1"}},
		Images:     []corev1.ContainerImage{{Names: []string{"i"}}},
	}
	fresh := old.DeepCopy()
	delete(fresh.Labels, "gone")
	fresh.Spec.Unschedulable = true
	fresh.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("2")}
	fresh.Status.Conditions[1].Status = "False"
	fresh.Status.Addresses[0].Address = "10.0.0.2"
	got, err := nodestatus.Patch(old, fresh)
	if err != nil {
		t.Fatal(err)
	}
	want := `{
		"metadata": {"uid": "u", "labels": {"gone": null}},
		"status": {
			"capacity": {"cpu": "2", "hugepages-1Gi": null},
			"conditions": [{"type": "Ready", "status": "False", "lastHeartbeatTime": null, "lastTransitionTime": null}],
			"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}, {"$patch": "replace"}]
		}
	}`
	if diff := cmp.Diff(object(t, want), object(t, string(got))); diff != "" {
		t.Errorf("patch (-want +got):\n%s", diff)
	}
}

func object(t *testing.T, s string) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(s), &o); err != nil {
		t.Fatalf("%v: %s", err, s)
	}
	return o
}

// node draws a Node as it may be in an API server.
func node(rt *rapid.T, name string) *corev1.Node {
	words := rapid.SampledFrom([]string{"a", "b", "c"})
	quantities := rapid.MapOf(rapid.SampledFrom([]corev1.ResourceName{"cpu", "memory", "hugepages-2Mi", "x.example/y"}),
		rapid.Map(rapid.IntRange(0, 3), func(i int) resource.Quantity { return resource.MustParse(fmt.Sprint(i)) }))
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}
	n.Labels = rapid.MapOf(words, words).Draw(rt, name+" labels")
	n.Annotations = rapid.MapOf(words, words).Draw(rt, name+" annotations")
	n.Status.Capacity = quantities.Draw(rt, name+" capacity")
	n.Status.Allocatable = quantities.Draw(rt, name+" allocatable")
	n.Status.NodeInfo.BootID = words.Draw(rt, name+" boot")
	for _, kind := range []corev1.NodeConditionType{"MemoryPressure", "Ready", "Foreign"} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionStatus(words.Draw(rt, name+" status")),
			LastHeartbeatTime: metav1.NewTime(time.Unix(int64(rapid.IntRange(0, 2).Draw(rt, name+" time")), 0)),
		})
	}
	for _, a := range rapid.SliceOfN(words, 0, 3).Draw(rt, name+" addresses") {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: "InternalIP", Address: a})
	}
	for _, i := range rapid.SliceOfN(words, 0, 3).Draw(rt, name+" images") {
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{i}})
	}
	return n
}

// Whatever two Nodes are: the patch makes the server's Node the one that is wanted.
func TestPatchMakesOneNodeTheOtherProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		old, fresh := node(rt, "old"), node(rt, "fresh")
		s := leasetest.New()
		s.SetNode("node-a", func(n *corev1.Node) {
			n.Labels, n.Annotations, n.Status = old.Labels, old.Annotations, old.Status
		})
		stored := s.Node("node-a")
		patch, err := nodestatus.Patch(stored, fresh)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := leasetest.Direct(s).Nodes().Patch(t.Context(), "node-a", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			rt.Fatalf("%v: %s", err, patch)
		}
		if nodestatus.Changed(got, fresh) {
			rt.Errorf("patch %s makes (-want +got):\n%s", patch, cmp.Diff(fresh, got))
		}
	})
}
