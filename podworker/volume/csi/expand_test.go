package csi

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const gi = 1 << 30

// many lets several nodes write a claim.
func many(c *corev1.PersistentVolumeClaim) {
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

func storage(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func resizeStatus(s corev1.ClaimResourceStatus) map[corev1.ResourceName]corev1.ClaimResourceStatus {
	return map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: s}
}

// growElsewhere is what is to be seen of a volume that another node made grow.
func (w *world) growElsewhere(claim, size string) {
	w.server.volumes.change("pv-"+claim, func(pv *corev1.PersistentVolume) { pv.Spec.Capacity = storage(size) })
	w.server.claims.change(claim, func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity, c.Status.AllocatedResources = storage(size), storage(size)
	})
}

// sizes returns what the driver was told to make volumes grow to.
func (w *world) sizes() []int64 {
	var out []int64
	for _, c := range w.driver.Calls() {
		if c.Op == "NodeExpandVolume" {
			out = append(out, c.Bytes)
		}
	}
	return out
}

// TestGrowthOfANode of several that have the volume: each has the driver make it grow, once.
func TestGrowthOfANode(t *testing.T) {
	w := newWorld(t, stages, expands)
	w.claim("db", nil)
	w.server.claims.change("db", many)
	w.setUp(podOf("1", "db"))
	w.growElsewhere("db", "2Gi")
	writes := len(w.server.claims.log())
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "db"))
	if diff := cmp.Diff([]int64{2 * gi}, w.sizes()); diff != "" {
		t.Errorf("sizes (-want +got):\n%s", diff)
	}
	w.restart() // what it has is not known any more
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "db"))
	w.growElsewhere("db", "3Gi")
	w.setUp(podOf("1", "db"))
	if diff := cmp.Diff([]int64{2 * gi, 2 * gi, 3 * gi}, w.sizes()); diff != "" {
		t.Errorf("sizes after a restart (-want +got):\n%s", diff)
	}
	if n := len(w.server.claims.log()) - writes; n != 0 {
		t.Errorf("%d writes to a claim that says all", n)
	}
	w.tearDown("1")
	w.tearDown("2")
	w.nothingLeft()
	w.setUp(podOf("3", "db")) // it is mounted as large as it is
	if n := len(w.sizes()); n != 3 {
		t.Errorf("the driver was told %v", w.sizes())
	}
	w.tearDown("3")
	w.nothingLeft()
}

// TestGrowthOf says what a node has to do.
func TestGrowthOf(t *testing.T) {
	tests := []struct {
		name   string
		change func(c *corev1.PersistentVolumeClaim)
		here   grown
		want   growth
	}{
		{name: "to be done", want: growth{bytes: 2 * gi}},
		{name: "no size yet", change: func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = nil }},
		{name: "cannot be done", change: func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = resizeStatus(corev1.PersistentVolumeClaimNodeResizeInfeasible)
		}},
		{name: "done", change: func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage("2Gi") }, here: grown{bytes: gi}},
		{name: "done elsewhere", change: func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage("2Gi"); many(c) }, here: grown{bytes: gi}, want: growth{bytes: 2 * gi, elsewhere: true}},
		{name: "done everywhere", change: func(c *corev1.PersistentVolumeClaim) { c.Status.Capacity = storage("2Gi"); many(c) }, here: grown{bytes: 2 * gi}},
		{name: "nodes have nothing to do", change: func(c *corev1.PersistentVolumeClaim) {
			c.Status.Capacity = storage("2Gi")
			many(c)
			c.Annotations = map[string]string{"volume.kubernetes.io/node-expansion-not-required": "true"}
		}, here: grown{bytes: gi}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &corev1.PersistentVolumeClaim{Status: corev1.PersistentVolumeClaimStatus{Capacity: storage("1Gi")}}
			if tt.change != nil {
				tt.change(c)
			}
			if got := growthOf(c, 2*gi, tt.here); got != tt.want {
				t.Errorf("growth is %+v, want %+v", got, tt.want)
			}
		})
	}
}
