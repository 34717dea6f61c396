package leasetest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func start(t *testing.T) (*leasetest.Server, leasetest.Client) {
	t.Helper()
	s := leasetest.New()
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, leasetest.Client{Base: h.URL, HTTP: h.Client()}
}

func TestLeaseIsCreatedReadAndUpdated(t *testing.T) {
	s, c := start(t)
	leases := c.Leases("ns")
	if _, err := leases.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Fatalf("Get of nothing: %v, want not found", err)
	}
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	made, err := leases.Create(t.Context(), l, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Create(t.Context(), l, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("second Create: %v, want already exists", err)
	}
	if _, err := leases.Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Errorf("Update: %v", err)
	}
	if _, err := leases.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("Update of an old version: %v, want a conflict", err)
	}
	s.DeleteLease("ns", "a")
	if _, err := leases.Update(t.Context(), made, metav1.UpdateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Update of nothing: %v, want not found", err)
	}
	if n := len(s.Writes()); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}

func TestPatchOfANodesStatus(t *testing.T) {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status}
	}
	tests := []struct {
		name, patch string
		want        corev1.NodeStatus
	}{
		{
			"conditions merge by type", `{"status":{"conditions":[{"type":"Ready","status":"False"},{"type":"New","status":"True"}]}}`,
			corev1.NodeStatus{Phase: "x", Conditions: []corev1.NodeCondition{condition("Ready", "False"), condition("Other", "True"), condition("New", "True")}},
		},
		{
			"null deletes", `{"status":{"phase":null}}`,
			corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition("Ready", "True"), condition("Other", "True")}},
		},
		{
			"a directive replaces", `{"status":{"conditions":[{"type":"Only","status":"True"},{"$patch":"replace"}]}}`,
			corev1.NodeStatus{Phase: "x", Conditions: []corev1.NodeCondition{condition("Only", "True")}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, c := start(t)
			s.SetNode("a", func(n *corev1.Node) {
				n.Status = corev1.NodeStatus{Phase: "x", Conditions: []corev1.NodeCondition{condition("Ready", "True"), condition("Other", "True")}}
			})
			got, err := c.Nodes().Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(tt.patch), metav1.PatchOptions{}, "status")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPatchesThatAreRefused(t *testing.T) {
	s, c := start(t)
	s.SetNode("a", func(*corev1.Node) {})
	for name, patch := range map[string]string{
		"of the spec":      `{"spec":{"unschedulable":true}}`,
		"of another UID":   `{"metadata":{"uid":"other"}}`,
		"that is no JSON":  `{`,
		"of another shape": `{"status":[]}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Nodes().Patch(t.Context(), "a", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err == nil {
				t.Error("it was taken")
			}
		})
	}
}

func TestNodeTakesItsLeasesWithIt(t *testing.T) {
	s, _ := start(t)
	s.SetNode("a", func(*corev1.Node) {})
	uid := s.NodeUID("a")
	s.SetLease("ns", "a", func(l *coordinationv1.Lease) {
		l.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "a", UID: uid}}
	})
	if !s.Owned("ns", "a") {
		t.Fatal("the Lease is not owned")
	}
	s.DeleteNode("a")
	if s.Lease("ns", "a") != nil {
		t.Error("the Lease outlived its Node")
	}
}

func Example() {
	server := leasetest.New()
	http := httptest.NewServer(server)
	defer http.Close()
	nodes := leasetest.Client{Base: http.URL}.Nodes()
	_, err := nodes.Get(context.Background(), "node-a", metav1.GetOptions{})
	fmt.Println(err)
	// Output: nodes "node-a" not found
}
