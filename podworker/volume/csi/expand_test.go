package csi

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
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
		{name: "to be done again", here: grown{failed: true}, want: growth{bytes: 2 * gi, last: true}},
		{name: "nodes have to", change: func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = resizeStatus(corev1.PersistentVolumeClaimNodeResizePending)
			c.Status.AllocatedResources = storage("2Gi")
		}, want: growth{bytes: 2 * gi, recovers: true}},
		{name: "again, as asked for", change: func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = resizeStatus(corev1.PersistentVolumeClaimNodeResizeInProgress)
			c.Status.AllocatedResources, c.Spec.Resources.Requests = storage("2Gi"), storage("2Gi")
		}, here: grown{failed: true}, want: growth{bytes: 2 * gi, recovers: true}},
		{name: "as far as is allocated", change: func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = resizeStatus(corev1.PersistentVolumeClaimNodeResizePending)
			c.Status.AllocatedResources = storage("1536Mi")
		}, want: growth{bytes: 3 * gi / 2, recovers: true}},
		{name: "the controller is at it", change: func(c *corev1.PersistentVolumeClaim) {
			c.Status.AllocatedResourceStatuses = resizeStatus(corev1.PersistentVolumeClaimControllerResizeInProgress)
		}},
		{name: "allocated alone", change: func(c *corev1.PersistentVolumeClaim) { c.Status.AllocatedResources = storage("2Gi") }},
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

// told collects events, as "about reason: message".
type told struct {
	mu   sync.Mutex // guards said
	said []string
}

func (l *told) add(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, e volume.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	about := pod.Name
	if claim != nil {
		about += " " + claim.Name
	}
	l.said = append(l.said, fmt.Sprintf("%s %s %s: %s", about, e.Type, e.Reason, e.Message))
}

// growHere is what who makes volumes grow leaves to a node.
func (w *world) growHere(claim, size string) {
	w.server.volumes.change("pv-"+claim, func(pv *corev1.PersistentVolume) { pv.Spec.Capacity = storage(size) })
	w.server.claims.change(claim, func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = storage(size)
		c.Status.AllocatedResources = storage(size)
		c.Status.AllocatedResourceStatuses = resizeStatus(corev1.PersistentVolumeClaimNodeResizePending)
	})
}

// statusOf is what a claim says: how far its volume is, its size and why it does not grow.
func (w *world) statusOf(claim string) [3]string {
	w.t.Helper()
	c, err := w.server.claims.Get(w.t.Context(), claim, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var why string
	for _, c := range c.Status.Conditions {
		why += fmt.Sprintf("%s %s", c.Type, c.Message)
	}
	size := c.Status.Capacity[corev1.ResourceStorage]
	return [3]string{string(c.Status.AllocatedResourceStatuses[corev1.ResourceStorage]), size.String(), why}
}

// TestRefusedGrowth is told to users of the pod, and in the status of the claim, so that who
// makes volumes grow can take it back. The pod keeps what it has.
func TestRefusedGrowth(t *testing.T) {
	const call = "NodeExpandVolume of driver csitest.nodekit.example for volume handle-db: rpc error: code = %s desc = oops"
	tests := []struct {
		name  string
		code  codes.Code
		asks  string // what the claim asks for when it is tried again
		wants [2]string
		calls int // in two tries
	}{
		{"for now", codes.Internal, "2Gi", [2]string{"NodeResizeInProgress", "NodeResizeInProgress"}, 2},
		{"for another size", codes.Internal, "1536Mi", [2]string{"NodeResizeInProgress", "NodeResizeInfeasible"}, 2},
		{"for ever", codes.OutOfRange, "2Gi", [2]string{"NodeResizeInfeasible", "NodeResizeInfeasible"}, 1},
		{"while it is in use", codes.FailedPrecondition, "2Gi", [2]string{"NodeResizeInProgress", "NodeResizeInProgress"}, 1},
		{"not for sure", codes.Unavailable, "2Gi", [2]string{"NodeResizeInProgress", "NodeResizeInProgress"}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w, log := newWorld(t, stages, expands), &told{}
			w.startProvider(Config{OnEvent: log.add})
			w.register()
			w.claim("db", nil)
			w.setUp(podOf("1", "db"))
			w.growHere("db", "2Gi")
			w.driver.Inject("NodeExpandVolume", csitest.Fail(tt.code, "oops"), 0)
			failed := fmt.Sprintf(call, tt.code)
			why := "NodeResizeError failed to expand pvc with " + failed
			if tt.code == codes.Unavailable {
				why = "" // it may yet succeed
			}
			for i, want := range tt.wants {
				w.setUp(podOf("1", "db"))
				if diff := cmp.Diff([3]string{want, "1Gi", why}, w.statusOf("db")); diff != "" {
					t.Errorf("the claim after try %d (-want +got):\n%s", i, diff)
				}
				w.server.claims.change("db", func(c *corev1.PersistentVolumeClaim) { c.Spec.Resources.Requests = storage(tt.asks) })
			}
			event := `pod-1 Warning VolumeResizeFailed: NodeExpandVolume.NodeExpandVolume failed for volume "pv-db" : ` + failed
			if diff := cmp.Diff(slices.Repeat([]string{event}, tt.calls), log.said); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if n := len(w.sizes()); n != tt.calls {
				t.Errorf("%d calls, want %d", n, tt.calls)
			}
		})
	}
}

// TestGrowthIsTold when all is well, and when the pod only reads.
func TestGrowthIsTold(t *testing.T) {
	w, log := newWorld(t, stages, expands), &told{}
	w.startProvider(Config{OnEvent: log.add})
	w.register()
	w.claim("db", nil)
	w.growHere("db", "2Gi")
	reader := podOf("1", "db")
	reader.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
	w.setUp(reader)
	w.setUp(reader)
	w.setUp(podOf("2", "db"))
	want := []string{
		`pod-1 db Warning FileSystemResizeFailed: MountVolume.NodeExpandVolume failed for volume "pv-db" requested read-only file system`,
		`pod-2 db Normal FileSystemResizeSuccessful: MountVolume.NodeExpandVolume succeeded for volume "pv-db" node-a`,
	}
	if diff := cmp.Diff(want, log.said); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([3]string{"", "2Gi", ""}, w.statusOf("db")); diff != "" {
		t.Errorf("the claim (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"patch db", "patch db"}, w.server.claims.log()); diff != "" {
		t.Errorf("writes, in progress and done (-want +got):\n%s", diff)
	}
}

// TestInUseGrowth is tried again when a pod gets the volume anew.
func TestInUseGrowth(t *testing.T) {
	w := newWorld(t, stages, expands)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	w.growHere("db", "2Gi")
	w.driver.Inject("NodeExpandVolume", csitest.Fail(codes.FailedPrecondition, "in use"), 1)
	w.setUp(podOf("1", "db"))
	w.setUp(podOf("2", "db"))
	if diff := cmp.Diff([3]string{"", "2Gi", ""}, w.statusOf("db")); diff != "" {
		t.Errorf("the claim (-want +got):\n%s", diff)
	}
}
