package csi

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// recounted is a node whose driver wants to be asked what it has room for, each so many
// seconds; 0: it does not.
func recounted(t *testing.T, seconds int64) *world {
	t.Helper()
	w := newWorld(t)
	w.server.drivers.change(csitest.DefaultName, func(d *storagev1.CSIDriver) {
		d.Spec.AttachRequired = new(true)
		if seconds > 0 {
			d.Spec.NodeAllocatableUpdatePeriodSeconds = &seconds
		}
	})
	w.driver.SetMaxVolumes(5)
	w.restart()
	w.room(5)
	return w
}

// room waits until the CSINode says what the driver has room for.
func (w *world) room(want int32) {
	w.t.Helper()
	eventually(w.t, "the count of the CSINode", func() bool {
		node, err := w.server.csiNodes.Get(w.t.Context(), "node-a", metav1.GetOptions{})
		return err == nil && len(node.Spec.Drivers) == 1 && count(node.Spec.Drivers[0]) == want
	})
}

// TestRoomIsAskedFor as often as the driver wants to be asked, and told by the CSINode.
func TestRoomIsAskedFor(t *testing.T) {
	w := recounted(t, 1)
	w.driver.Inject("NodeGetInfo", csitest.Fail(codes.Internal, "oops"), 1) // it is asked again
	w.driver.SetMaxVolumes(7)
	w.room(7)
	w.driver.SetMaxVolumes(0) // any number
	w.room(0)
	w.driver.SetMaxVolumes(2)
	w.room(2)
}

// TestNoRoom for a volume is told to whoever decides about the pod, and the driver is asked
// at once; only if it wants to be asked at all.
func TestNoRoom(t *testing.T) {
	for _, seconds := range []int64{0, 3600} {
		w := recounted(t, seconds)
		w.claim("db", nil)
		code := int32(codes.ResourceExhausted)
		id := volumeID{csitest.DefaultName, "handle-db"}
		w.server.attachments.set(attached(id, func(a *storagev1.VolumeAttachment) {
			a.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "five are attached", ErrorCode: &code}}
		}))
		w.driver.SetMaxVolumes(4)
		err := w.setUpFails(podOf("1", "db"))
		if errors.Is(err, ErrAttachLimit) != (seconds > 0) || !strings.Contains(err.Error(), "five are attached") {
			t.Errorf("with a period of %d s: %v", seconds, err)
		}
		if seconds > 0 {
			w.room(4)
		}
		other := int32(codes.Internal)
		w.server.attachments.change(attachment(id, "node-a"), func(a *storagev1.VolumeAttachment) { a.Status.AttachError.ErrorCode = &other })
		if err := w.setUpFails(podOf("1", "db")); errors.Is(err, ErrAttachLimit) {
			t.Errorf("another failure to attach: %v", err)
		}
		w.tearDown("1")
	}
}

// TestLooks are as often as the driver wants to be asked; one that does not want that is
// only looked at whether it does by now.
func TestLooks(t *testing.T) {
	away, period := errors.New("the server is away"), int64(60)
	tests := []struct {
		name   string
		period *int64
		err    error
		want   look
		after  time.Duration
	}{
		{"not wanted", nil, nil, look{driver: "disk.example"}, 5 * time.Minute},
		{"wanted", &period, nil, look{driver: "disk.example", ask: true}, time.Minute},
		{"not known", nil, away, look{driver: "disk.example"}, 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.drivers.set(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "disk.example"}, Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: tt.period}})
				s.drivers.fail(tt.err)
				p, err := newWith(Config{Node: "node-a", Root: filepath.Join(t.TempDir(), "none"), API: s.api()}, &fakeHost{})
				if err != nil {
					t.Fatal(err)
				}
				got, want := p.look(t.Context(), look{driver: "disk.example"}), tt.want
				want.at = time.Now().Add(tt.after)
				if got != want {
					t.Errorf("next look is %+v, want %+v", got, want)
				}
			})
		})
	}
}

// TestRecount changes nothing but the count of a driver that is there.
func TestRecount(t *testing.T) {
	p := &publisher{wake: make(chan struct{}, 1), drivers: map[string]*nodeInfo{"a": {id: "n", max: 1}, "gone": nil}}
	p.recount("a", 1)
	p.recount("gone", 2)
	p.recount("never", 3)
	if len(p.wake) != 0 || len(p.drivers) != 2 {
		t.Errorf("a count that is known wakes: %d, drivers are %v", len(p.wake), p.drivers)
	}
	before := p.drivers["a"]
	p.recount("a", 4)
	if got := p.drivers["a"]; len(p.wake) != 1 || got.id != "n" || got.max != 4 || before.max != 1 {
		t.Errorf("wakes: %d, driver is %+v, was %+v", len(p.wake), got, before)
	}
}
