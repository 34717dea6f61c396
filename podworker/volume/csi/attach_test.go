package csi

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// attached is a VolumeAttachment of a volume.
func attached(id volumeID, change func(*storagev1.VolumeAttachment)) *storagev1.VolumeAttachment {
	a := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: attachment(id, "node-a")},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "sdb"}},
	}
	if change != nil {
		change(a)
	}
	return a
}

// TestWaitAttached polls one object by name, until it says that the volume is attached.
func TestWaitAttached(t *testing.T) {
	id := volumeID{"disk.example", "h"}
	tests := []struct {
		name    string
		object  *storagev1.VolumeAttachment // from the start
		later   *storagev1.VolumeAttachment // after ten seconds
		reports bool                        // the Node has to say so, too
		want    string                      // part of the error, empty for none
	}{
		{name: "at once", object: attached(id, nil)},
		{name: "later", later: attached(id, nil)},
		{name: "not yet, then later", object: attached(id, func(a *storagev1.VolumeAttachment) { a.Status.Attached = false }), later: attached(id, nil)},
		{name: "never", want: "is not attached: read VolumeAttachment csi-"},
		{name: "failed", object: attached(id, func(a *storagev1.VolumeAttachment) {
			a.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "no such disk"}}
		}), want: "attach: no such disk"},
		{name: "goes", object: attached(id, func(a *storagev1.VolumeAttachment) { a.DeletionTimestamp = &metav1.Time{} }), want: "is being deleted"},
		{name: "the Node says so, too", object: attached(id, nil), reports: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				if tt.object != nil {
					s.attachments.set(tt.object)
				}
				var told atomic.Int32
				p, err := newWith(Config{Node: "node-a", Root: filepath.Join(t.TempDir(), "none"), API: s.api(), ReportsInUse: tt.reports, InUseChanged: func() { told.Add(1) }}, &fakeHost{})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				var others sync.WaitGroup
				defer others.Wait()
				others.Go(func() {
					passes(10 * time.Second)
					if tt.later != nil {
						s.attachments.set(tt.later)
					}
					p.Reported([]corev1.UniqueVolumeName{"kubernetes.io/csi/other^x", id.unique()})
					passes(10 * time.Second)
					s.nodes.change("node-a", func(n *corev1.Node) {
						n.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "kubernetes.io/csi/disk.example^h"}}
					})
				})
				start := time.Now()
				metadata, err := p.waitAttached(ctx, id)
				took := time.Since(start)
				switch {
				case tt.want != "":
					if err == nil || !strings.Contains(err.Error(), tt.want) {
						t.Errorf("error is %v, want one with %q", err, tt.want)
					}
				case err != nil || metadata["device"] != "sdb":
					t.Errorf("metadata is %v (%v)", metadata, err)
				case tt.object != nil && tt.object.Status.Attached && !tt.reports && took != 0:
					t.Errorf("it took %s", took)
				case tt.later != nil && (took < 10*time.Second || took > 15*time.Second):
					t.Errorf("it took %s, want little more than 10 s", took)
				case tt.reports && (took < 20*time.Second || took > 25*time.Second || told.Load() == 0):
					t.Errorf("it took %s, want little more than 20 s; who writes the Node was told %d times", took, told.Load())
				}
			})
		})
	}
}

// TestNodeDoesNotReport waits for nothing but the Node, and says so.
func TestNodeDoesNotReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newWith(Config{Node: "node-a", Root: filepath.Join(t.TempDir(), "none"), API: newServer().api(), ReportsInUse: true}, &fakeHost{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := p.waitAttached(ctx, volumeID{"disk.example", "h"}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "VolumesInUse") {
			t.Errorf("error is %v", err)
		}
	})
}

// TestAttachedVolume is told to the driver with what the attacher knows, and is in use
// from before until it is unstaged.
func TestAttachedVolume(t *testing.T) {
	w := newWorld(t, stages)
	if err := w.server.drivers.Delete(t.Context(), csitest.DefaultName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err) // without the object volumes are attached
	}
	w.claim("db", nil)
	id := volumeID{csitest.DefaultName, "handle-db"}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	pod := podOf("1", "db")
	if _, err := w.p.SetUp(ctx, pod, &pod.Spec.Volumes[0]); err == nil || !strings.Contains(err.Error(), "is not attached") {
		t.Errorf("a volume that is not attached: %v", err)
	}
	if !slices.Equal(w.p.InUse(), []corev1.UniqueVolumeName{id.unique()}) {
		t.Errorf("in use are %v", w.p.InUse())
	}
	w.server.attachments.set(attached(id, nil))
	w.setUp(pod)
	for _, c := range w.driver.Calls() {
		if c.PublishContext["device"] != "sdb" {
			t.Errorf("%s was told %v", c.Op, c.PublishContext)
		}
	}
	w.tearDown("1")
	w.nothingLeft()
}
