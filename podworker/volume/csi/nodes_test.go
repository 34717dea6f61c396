package csi

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// publish runs a publisher of a server until the test ends. It is not ready before.
func publish(t *testing.T, s *server) *Provider {
	t.Helper()
	p, err := newWith(Config{Node: "node-a", Root: filepath.Join(t.TempDir(), "none"), API: s.api()}, &fakeHost{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(); err == nil || err.Error() != "CSINode is not yet initialized" {
		t.Errorf("before the start: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.nodes.run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return p
}

// passes lets time pass in a synctest bubble.
func passes(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
}

func disk(topology map[string]string) *nodeInfo {
	return &nodeInfo{id: "disk-1", max: 1 << 40, topology: topology}
}

// TestCSINode is created with the Node as its owner, and follows the drivers.
func TestCSINode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := publish(t, s)
		synctest.Wait()
		if err := p.Ready(); err != nil {
			t.Errorf("with a CSINode: %v", err)
		}
		p.nodes.set("disk.example", disk(map[string]string{"zone": "b", "rack": "7"}))
		synctest.Wait()
		got, err := s.csiNodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		most := int32(1<<31 - 1)
		want := []storagev1.CSINodeDriver{{Name: "disk.example", NodeID: "disk-1", TopologyKeys: []string{"rack", "zone"}, Allocatable: &storagev1.VolumeNodeResources{Count: &most}}}
		if diff := cmp.Diff(want, got.Spec.Drivers); diff != "" {
			t.Errorf("drivers (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-a", UID: "node-uid"}}, got.OwnerReferences); diff != "" {
			t.Errorf("owners (-want +got):\n%s", diff)
		}
		node, _ := s.nodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		if node.Annotations[nodeIDs] != `{"disk.example":"disk-1"}` || node.Labels["zone"] != "b" || node.Labels["rack"] != "7" {
			t.Errorf("the Node has %v and %v", node.Annotations, node.Labels)
		}
		p.nodes.set("disk.example", disk(map[string]string{"zone": "b", "rack": "7"}))
		synctest.Wait()
		if diff := cmp.Diff([]string{"create node-a", "update node-a"}, s.csiNodes.log()); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
		p.nodes.set("disk.example", nil)
		synctest.Wait()
		got, _ = s.csiNodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		node, _ = s.nodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		if len(got.Spec.Drivers) != 0 || node.Annotations[nodeIDs] != "" || node.Labels["zone"] != "b" {
			t.Errorf("after the driver has gone: %v, %v, %v", got.Spec.Drivers, node.Annotations, node.Labels)
		}
	})
}

// TestDriversOfBefore stay: they may yet come.
func TestDriversOfBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.csiNodes.set(&storagev1.CSINode{
			ObjectMeta: metav1.ObjectMeta{Name: "node-a", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "node-a", UID: "node-uid"}}},
			Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "nfs.example", NodeID: "x"}}},
		})
		s.nodes.change("node-a", func(n *corev1.Node) { n.Annotations = map[string]string{nodeIDs: `{"nfs.example":"x"}`} })
		p := publish(t, s)
		synctest.Wait()
		if n := s.csiNodes.log(); len(n) != 0 {
			t.Errorf("writes are %v, want none", n)
		}
		p.nodes.set("disk.example", disk(nil))
		synctest.Wait()
		got, _ := s.csiNodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		node, _ := s.nodes.Get(t.Context(), "node-a", metav1.GetOptions{})
		if len(got.Spec.Drivers) != 2 || node.Annotations[nodeIDs] != `{"disk.example":"disk-1","nfs.example":"x"}` {
			t.Errorf("drivers are %v, and %v", got.Spec.Drivers, node.Annotations)
		}
	})
}

// TestCSINodeOfANodeBefore is made anew: it would be deleted with its owner.
func TestCSINodeOfANodeBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.csiNodes.set(&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: "node-a", OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "node-a", UID: "before"}}}})
		p := publish(t, s)
		synctest.Wait()
		if diff := cmp.Diff([]string{"delete node-a", "create node-a"}, s.csiNodes.log()); diff != "" || p.Ready() != nil {
			t.Errorf("writes (-want +got):\n%s (%v)", diff, p.Ready())
		}
	})
}

// TestLabelCollision warns, changes no label, and tells the rest all the same.
func TestLabelCollision(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{"zone": "a"}, ResourceVersion: "7"}}
	patch, err := nodePatch(node, map[string]*nodeInfo{"disk.example": disk(map[string]string{"zone": "b", "rack": "7"})})
	if err == nil || !strings.Contains(err.Error(), `driver disk.example reported "zone":"b" but existing label is "zone":"a"`) {
		t.Errorf("error is %v", err)
	}
	want := `{"metadata":{"annotations":{"csi.volume.kubernetes.io/nodeid":"{\"disk.example\":\"disk-1\"}"},"labels":{"rack":"7"},"resourceVersion":"7"}}`
	if string(patch) != want {
		t.Errorf("patch is %s, want %s", patch, want)
	}
	node.Annotations = map[string]string{nodeIDs: "[nonsense"}
	if patch, err := nodePatch(node, map[string]*nodeInfo{"disk.example": disk(nil)}); err != nil || !strings.Contains(string(patch), "disk-1") {
		t.Errorf("with an annotation that nobody can read: %s (%v)", patch, err)
	}
}

// TestServerAwayAtTheStart tries again until it is there, and is not ready before.
func TestServerAwayAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		away := errors.New("the server is away")
		s.nodes.fail(away)
		p := publish(t, s)
		passes(5 * time.Minute)
		if err := p.Ready(); !errors.Is(err, away) || !strings.HasPrefix(err.Error(), "CSINode is not yet initialized") {
			t.Errorf("ready: %v", err)
		}
		s.nodes.fail(nil)
		s.csiNodes.fail(away)
		passes(time.Minute)
		if err := p.Ready(); !errors.Is(err, away) {
			t.Errorf("ready: %v", err)
		}
		s.csiNodes.fail(nil)
		passes(time.Minute)
		if err := p.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
		s.nodes.fail(away) // once ready, a server that is away does not matter
		p.nodes.set("disk.example", disk(nil))
		passes(time.Minute)
		if err := p.Ready(); err != nil {
			t.Errorf("ready: %v", err)
		}
	})
}

// TestNodeMadeAnew gets its CSINode at once, and one that somebody deleted comes back.
func TestNodeMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		p := publish(t, s)
		synctest.Wait()
		s.nodes.set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a", UID: "another"}})
		p.Registered()
		synctest.Wait()
		if n, err := s.csiNodes.Get(t.Context(), "node-a", metav1.GetOptions{}); err != nil || n.OwnerReferences[0].UID != "another" {
			t.Errorf("the CSINode is %+v (%v)", n, err)
		}
		if err := s.csiNodes.Delete(t.Context(), "node-a", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		passes(lookPause)
		synctest.Wait()
		if _, err := s.csiNodes.Get(t.Context(), "node-a", metav1.GetOptions{}); err != nil {
			t.Errorf("a CSINode that was deleted: %v", err)
		}
	})
}

// FuzzNodePatch feeds what a Node may say and what a driver may: a patch is one object,
// with what the driver calls the node.
func FuzzNodePatch(f *testing.F) {
	f.Add(`{"nfs.example":"x"}`, "zone", "b")
	f.Add(`[]`, "", "\xff")
	f.Add(`{"disk.example":{}}`, "a\x00b", `"`)
	f.Fuzz(func(t *testing.T, annotation, key, value string) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{nodeIDs: annotation}, ResourceVersion: "7"}}
		raw, err := nodePatch(node, map[string]*nodeInfo{"disk.example": {id: "disk-1", topology: map[string]string{key: value}}})
		if err != nil || raw == nil {
			t.Fatalf("%q (%v)", raw, err)
		}
		var patch struct {
			Metadata struct {
				Annotations map[string]string
				Labels      map[string]string
			}
		}
		if err := json.Unmarshal(raw, &patch); err != nil {
			t.Fatal(err)
		}
		ids := map[string]string{"disk.example": "disk-1"}
		if text, ok := patch.Metadata.Annotations[nodeIDs]; ok {
			clear(ids)
			if err := json.Unmarshal([]byte(text), &ids); err != nil {
				t.Fatal(err)
			}
		}
		if ids["disk.example"] != "disk-1" || len(patch.Metadata.Labels) != 1 {
			t.Errorf("patch is %s", raw)
		}
	})
}
