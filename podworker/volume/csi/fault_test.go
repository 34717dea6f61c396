package csi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume/csi/csitest"
)

// TestFailedCalls: after an error by which the call is over nothing is left; after any
// other one the records stay, and the driver is told to undo what it may have done.
func TestFailedCalls(t *testing.T) {
	tests := []struct {
		name, op string
		fault    csitest.Fault
		keeps    bool // the record of what may have been done
	}{
		{"stage fails", "NodeStageVolume", csitest.Fail(codes.Internal, "no disk"), false},
		{"stage goes on", "NodeStageVolume", csitest.Fail(codes.Aborted, "pending"), true},
		{"stage succeeds and fails", "NodeStageVolume", csitest.FailAfter(codes.Internal, "oops"), true},
		{"publish fails", "NodePublishVolume", csitest.Fail(codes.InvalidArgument, "no"), false},
		{"publish goes on", "NodePublishVolume", csitest.FailAfter(codes.Unavailable, "gone"), true},
		{"publish succeeds and fails", "NodePublishVolume", csitest.FailAfter(codes.Internal, "oops"), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, stages)
			w.claim("db", nil)
			w.driver.Inject(tt.op, tt.fault, 1)
			err := w.setUpFails(podOf("1", "db"))
			failed, ok := errors.AsType[*CallError](err)
			if !ok || failed.Op != tt.op || failed.Volume != "handle-db" || failed.Driver != csitest.DefaultName {
				t.Errorf("error is %v, want a CallError of %s", err, tt.op)
			}
			dir := w.p.paths.staging(volumeID{csitest.DefaultName, "handle-db"})
			if tt.op == "NodePublishVolume" {
				dir = w.p.paths.target("1", "pv-db")
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(dir), recordFile)); (err == nil) != tt.keeps {
				t.Errorf("the record exists: %v, want %v", err == nil, tt.keeps)
			}
			w.tearDown("1")
			w.nothingLeft()
			w.setUp(podOf("2", "db")) // another try works
			w.tearDown("2")
			w.nothingLeft()
		})
	}
}

// TestHungDriver holds up its pods and nobody else, no longer than the deadline of a
// call, and not when the pod goes.
func TestHungDriver(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("hung", nil)
	w.claim("fine", nil)
	w.driver.Inject("NodeStageVolume", csitest.Hang, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	hanging.Go(func() {
		pod := podOf("1", "hung")
		if _, err := w.p.SetUp(ctx, pod, &pod.Spec.Volumes[0]); status.Code(errors.Unwrap(err)) != codes.Canceled {
			t.Errorf("the pod with the driver that hangs: %v", err)
		}
	})
	eventually(t, "the call that hangs", func() bool { return len(w.driver.Calls()) == 1 })
	w.setUp(podOf("2", "fine"))
	// Another pod with the same volume waits for its turn, as long as it wants.
	short, end := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer end()
	pod := podOf("3", "hung")
	if _, err := w.p.SetUp(short, pod, &pod.Spec.Volumes[0]); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("another pod with the volume: %v", err)
	}
	w.tearDown("2")
	cancel()
	hanging.Wait()
	w.idle()
	for _, uid := range []types.UID{"1", "3"} {
		w.tearDown(uid)
	}
	w.nothingLeft()
}

// TestDeadline bounds a call also when nobody else does.
func TestDeadline(t *testing.T) {
	w := newWorld(t)
	d, err := w.p.drivers.get(w.driver.Name())
	if err != nil {
		t.Fatal(err)
	}
	hasty := *d
	hasty.timeout = 100 * time.Millisecond
	w.p.drivers.set(d.name, &hasty)
	w.driver.Inject("NodePublishVolume", csitest.Hang, 1)
	if err := w.setUpFails(inline("1")); !strings.Contains(err.Error(), codes.DeadlineExceeded.String()) {
		t.Errorf("a call without an answer: %v", err)
	}
	w.p.drivers.set(d.name, d)
	w.driver.Inject("NodePublishVolume", nil, 0)
	pod := inline("1")
	eventually(t, "the volume", func() bool { // the driver may not have noticed that nobody waits
		_, err := w.p.SetUp(t.Context(), pod, &pod.Spec.Volumes[0])
		return err == nil
	})
}

// TestDriverThatLies says that a volume is gone when it is not: nothing is removed, and
// the pod is not let go.
func TestDriverThatLies(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	m := w.setUp(podOf("1", "db"))
	w.driver.Inject("NodeUnpublishVolume", csitest.Lie, 1)
	if err := w.p.TearDown(t.Context(), "1"); err == nil || !strings.Contains(err.Error(), "is still mounted") {
		t.Errorf("TearDown is %v, want an error", err)
	}
	if _, err := readRecord(filepath.Dir(m.Path)); err != nil {
		t.Errorf("the record is gone: %v", err)
	}
	w.driver.Inject("NodeUnstageVolume", csitest.Lie, 1)
	w.tearDown("1")
	w.nothingLeft()
}

// TestWrongIdempotency has a driver that does not bear to be called twice. What is
// published stays.
func TestWrongIdempotency(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	m := w.setUp(podOf("1", "db"))
	w.restart()
	w.driver.Inject("NodePublishVolume", csitest.Fail(codes.AlreadyExists, "it is published"), 1)
	w.setUpFails(podOf("1", "db"))
	if on, _ := w.table.Mounted(m.Path); !on {
		t.Error("the volume of a pod that runs is not published any more")
	}
	w.setUp(podOf("1", "db"))
	w.driver.Inject("NodeUnpublishVolume", csitest.FailAfter(codes.Internal, "oops"), 1)
	if err := w.p.TearDown(t.Context(), "1"); err == nil {
		t.Error("TearDown ignores an error of the driver")
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestDataStays: what a driver, or a pod without a mount, left in a place is not removed.
func TestDataStays(t *testing.T) {
	w := newWorld(t)
	m := w.setUp(inline("1"))
	w.driver.Inject("NodeUnpublishVolume", func(context.Context, func() error) error {
		if err := w.table.Unmount(m.Path); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(m.Path, "data"), []byte("x"), 0o600)
	}, 1)
	if err := w.p.TearDown(t.Context(), "1"); err == nil {
		t.Error("TearDown says that nothing is left")
	}
	if _, err := os.Stat(filepath.Join(m.Path, "data")); err != nil {
		t.Errorf("data is gone: %v", err)
	}
}

// TestDriverIsNotThere is an error until it comes; then all goes on.
func TestDriverIsNotThere(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	w.p.Deregister(w.driver.Name(), "/another.sock") // that of another process
	w.setUp(podOf("1", "db"))
	w.p.Deregister(w.driver.Name(), w.driver.Endpoint())
	for _, err := range []error{w.setUpFails(podOf("2", "db")), w.p.TearDown(t.Context(), "1")} {
		if err == nil || !strings.Contains(err.Error(), "not found in the list of registered CSI drivers") {
			t.Errorf("without the driver: %v", err)
		}
	}
	w.register()
	w.tearDown("1")
	w.nothingLeft()
}

// TestUnstageFails is tried again, also when the driver comes back.
func TestUnstageFails(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	w.driver.Inject("NodeUnstageVolume", csitest.Fail(codes.Internal, "busy"), 2)
	w.tearDown("1")
	w.nothingLeft()
}

// TestDriverIsRestarted: mounts stay, and calls go to the new process.
func TestDriverIsRestarted(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	m := w.setUp(podOf("1", "db"))
	w.driver.Kill()
	if err := w.p.TearDown(t.Context(), "1"); err == nil {
		t.Error("TearDown with a dead driver: no error")
	}
	w.startDriver(csitest.Config{Capabilities: []csiapi.NodeServiceCapability_RPC_Type{stages}})
	if on, _ := w.table.Mounted(m.Path); !on {
		t.Error("the mount is gone")
	}
	w.tearDown("1")
	w.nothingLeft()
}

// TestUnstageHangs holds up no other volume.
func TestUnstageHangs(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("hung", nil)
	w.claim("fine", nil)
	w.setUp(podOf("1", "hung"))
	w.setUp(podOf("2", "fine"))
	w.driver.Inject("NodeUnstageVolume", csitest.Hang, 1)
	w.tearDown("1")
	eventually(t, "the call that hangs", func() bool { return slices.Contains(w.driver.Ops(), "NodeUnstageVolume") })
	w.tearDown("2")
	eventually(t, "the end of the other volume", func() bool { return w.p.volumes.get(volumeID{csitest.DefaultName, "handle-fine"}) == nil })
	if w.p.volumes.get(volumeID{csitest.DefaultName, "handle-hung"}) == nil {
		t.Error("the volume with the driver that hangs is forgotten")
	}
	w.stop() // ends the call
	w.idle()
	w.restart()
	w.nothingLeft()
}

// TestUnstageWithAnUnknownEnd undid the staging, for all that is known: the pod that comes
// before it is tried again has the volume staged anew.
func TestUnstageWithAnUnknownEnd(t *testing.T) {
	for _, code := range []codes.Code{codes.DeadlineExceeded, codes.Canceled, codes.Unavailable, codes.Internal} {
		t.Run(code.String(), func(t *testing.T) {
			w := newWorld(t, stages)
			w.claim("db", nil)
			w.setUp(podOf("1", "db"))
			w.stop() // what Run would do is done here
			w.tearDown("1")
			w.driver.Inject("NodeUnstageVolume", csitest.FailAfter(code, "oops"), 1)
			failed, ok := errors.AsType[*CallError](w.unstageUnused())
			if !ok || status.Code(failed.Err) != code {
				t.Fatalf("unstaging is %v, want the error of the driver", failed)
			}
			m := w.setUp(podOf("2", "db"))
			if on, _ := w.table.Mounted(m.Path); !on {
				t.Error("the volume of the next pod is not mounted")
			}
			want := []string{
				"NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume",
			}
			if diff := cmp.Diff(want, w.driver.Ops()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			w.tearDown("2")
			if err := w.unstageUnused(); err != nil {
				t.Error(err)
			}
			w.nothingLeft()
		})
	}
}

// TestStagedBefore stays staged when the driver refuses to stage it once more for the next
// process: the driver is told to undo it in the end, also if it mounts nothing there.
func TestStagedBefore(t *testing.T) {
	w := newWorld(t, stages)
	w.claim("db", nil)
	w.setUp(podOf("1", "db"))
	staging := w.p.paths.staging(volumeID{csitest.DefaultName, "handle-db"})
	w.restart()
	if err := w.table.Unmount(staging); err != nil {
		t.Fatal(err)
	}
	w.driver.Inject("NodeStageVolume", csitest.Fail(codes.Internal, "oops"), 1)
	w.setUpFails(podOf("1", "db"))
	if _, err := readRecord(filepath.Dir(staging)); err != nil {
		t.Errorf("the record of what is staged: %v", err)
	}
	w.tearDown("1")
	w.nothingLeft()
	if ops := w.driver.Ops(); ops[len(ops)-1] != "NodeUnstageVolume" {
		t.Errorf("calls are %v, want the last one to unstage", ops)
	}
}
