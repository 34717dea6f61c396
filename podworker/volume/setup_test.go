//go:build linux

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// provider has the volumes with a persistentVolumeClaim.
type provider struct {
	setUp    func(ctx context.Context, pod *corev1.Pod, call int) (volume.Mounted, error) // nil: succeeds
	tearDown func(ctx context.Context, uid types.UID) error                               // nil: succeeds

	mu    sync.Mutex // guards times
	times []time.Time
}

func (p *provider) Supports(v *corev1.Volume) bool { return v.PersistentVolumeClaim != nil }

func (p *provider) SetUp(ctx context.Context, pod *corev1.Pod, _ *corev1.Volume) (volume.Mounted, error) {
	p.mu.Lock()
	p.times = append(p.times, time.Now())
	call := len(p.times)
	p.mu.Unlock()
	if p.setUp == nil {
		return volume.Mounted{Path: "/mnt"}, nil
	}
	return p.setUp(ctx, pod, call)
}

func (p *provider) TearDown(ctx context.Context, uid types.UID) error {
	if p.tearDown == nil {
		return nil
	}
	return p.tearDown(ctx, uid)
}

func (p *provider) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.times)
}

func claim(name string) corev1.Volume {
	return source(name, corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}})
}

// TestSetUpTriesAgain with back-off until the time of a sync is over, and then says what is
// missing in the kubelet's words.
func TestSetUpTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		broken := errors.New("the disk is not there")
		p := &provider{setUp: func(context.Context, *corev1.Pod, int) (volume.Mounted, error) { return volume.Mounted{}, broken }}
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}, OnEvent: e.add})
		begin := time.Now()
		_, err := m.SetUp(t.Context(), pod("1", claim("data"), emptyDir("cache"), claim("a")))
		if took := time.Since(begin); took != 123*time.Second {
			t.Errorf("it gave up after %s, want 2m3s", took)
		}
		want := "unmounted volumes=[a data], unattached volumes=[], failed to process volumes=[]: context deadline exceeded: " +
			`volume "data": the disk is not there; volume "a": the disk is not there`
		if err == nil || err.Error() != want || !errors.Is(err, broken) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is\n%v, want\n%s", err, want)
		}
		var failed *volume.SetUpError
		if !errors.As(err, &failed) || len(failed.Unmounted) != 2 {
			t.Errorf("error is %#v", err)
		}
		// At 0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5 and 63.5 seconds, for each of two volumes.
		if got := p.calls(); got != 16 {
			t.Errorf("it was tried %d times, want 16: %v", got, p.times)
		}
		if got := e.all(); len(got) != 16 || got[0][strings.Index(got[0], "volume"):] != `volume "a" : the disk is not there` &&
			got[0] != `web-1: Warning FailedMount MountVolume.SetUp failed for volume "data" : the disk is not there` {
			t.Errorf("events are %q", got)
		}
	})
}

// TestSetUpSucceedsLate: one volume that comes late is waited for.
func TestSetUpSucceedsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{setUp: func(_ context.Context, _ *corev1.Pod, call int) (volume.Mounted, error) {
			if call < 4 {
				return volume.Mounted{}, errors.New("not yet")
			}
			return volume.Mounted{Path: "/mnt", ReadOnly: true}, nil
		}}
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}})
		begin := time.Now()
		mounted, err := m.SetUp(t.Context(), pod("1", claim("data")))
		if err != nil || time.Since(begin) != 3500*time.Millisecond {
			t.Errorf("after %s: %v, want no error after 3.5s", time.Since(begin), err)
		}
		if diff := cmp.Diff(map[string]volume.Mounted{"data": {Path: "/mnt", ReadOnly: true}}, mounted); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if _, err := m.SetUp(t.Context(), pod("1", claim("data"))); err != nil || p.calls() != 4 {
			t.Errorf("once it is ready, it was set up again: %d calls (%v)", p.calls(), err)
		}
	})
}

// TestSetUpIsWokenByTheObject it waits for, whatever the back-off.
func TestSetUpIsWokenByTheObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o objects
		m := newManager(t, volume.Config{Objects: &o})
		var paths map[string]volume.Mounted
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			paths, err = m.SetUp(t.Context(), pod("1", configMap("conf", "late")))
		}()
		<-time.After(40 * time.Second)
		o.setConfigMap("late", map[string]string{"a": "1"})
		begin := time.Now()
		m.Changed(volume.Object{Kind: volume.ConfigMaps, Namespace: "shop", Name: "late"})
		<-done
		if err != nil || time.Since(begin) != 0 {
			t.Fatalf("%v, %s after the object came", err, time.Since(begin))
		}
		if diff := cmp.Diff(map[string]string{"a": "1"}, files(t, paths["conf"].Path)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// TestSetUpEndsWithItsContext and what it began goes on for the next one.
func TestSetUpEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{setUp: func(ctx context.Context, _ *corev1.Pod, _ int) (volume.Mounted, error) {
			select {
			case <-time.After(10 * time.Second):
				return volume.Mounted{Path: "/slow"}, nil
			case <-ctx.Done():
				return volume.Mounted{}, ctx.Err()
			}
		}}
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		_, err := m.SetUp(ctx, pod("1", claim("data")))
		if time.Since(begin) != time.Second || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ended after %s with %v", time.Since(begin), err)
		}
		if _, err := m.SetUp(t.Context(), pod("1", claim("data"))); err != nil || time.Since(begin) != 10*time.Second || p.calls() != 1 {
			t.Errorf("the next one ended after %s with %v, after %d calls", time.Since(begin), err, p.calls())
		}
	})
}

// TestHangingVolumeHoldsUpNobody: neither other pods nor the other volumes of its own.
func TestHangingVolumeHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &provider{
			setUp: func(_ context.Context, pod *corev1.Pod, _ int) (volume.Mounted, error) {
				if pod.UID == "hangs" {
					<-release // whatever its context says, as a system call
				}
				return volume.Mounted{Path: "/mnt"}, nil
			},
			tearDown: func(_ context.Context, uid types.UID) error {
				if uid == "stays" {
					<-release
				}
				return nil
			},
		}
		var o objects
		o.setConfigMap("conf", map[string]string{"a": "1"})
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}, Objects: &o})
		run(t, m)
		_, err := m.SetUp(t.Context(), pod("hangs", claim("data"), configMap("conf", "conf")))
		contains(t, err, "unmounted volumes=[data], unattached volumes=[], failed to process volumes=[]: context deadline exceeded")
		setUp(t, m, pod("stays", claim("data")))
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		contains(t, m.TearDown(short, "stays"), "tear down volumes of pod stays: context deadline exceeded while volumes are being unmounted")
		contains(t, m.TearDown(short, "hangs"), "context deadline exceeded while the set-up of volumes [data] has not ended")
		begin := time.Now()
		for i := range 20 {
			uid := fmt.Sprint(i)
			setUp(t, m, pod(uid, claim("data"), configMap("conf", "conf"), emptyDir("cache")))
			o.setConfigMap("conf", map[string]string{"a": uid})
			m.Changed(volume.Object{Kind: volume.ConfigMaps, Namespace: "shop", Name: "conf"})
			if err := m.TearDown(t.Context(), types.UID(uid)); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("others waited for %s", took)
		}
		if m.Unmounted("hangs") || m.Unmounted("stays") || !m.Unmounted("0") {
			t.Error("what hangs counts as unmounted, or what does not as mounted")
		}
		close(release)
		for _, uid := range []types.UID{"hangs", "stays"} {
			if err := m.TearDown(t.Context(), uid); err != nil || !m.Unmounted(uid) {
				t.Errorf("%s, released: %v", uid, err)
			}
		}
	})
}

// TestTearDownEndsSetUp: the one that waits is told, a call that runs is cut off and waited
// for, and nothing is set up any more.
func TestTearDownEndsSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running sync.Mutex
		p := &provider{
			setUp: func(ctx context.Context, _ *corev1.Pod, _ int) (volume.Mounted, error) {
				running.Lock()
				defer running.Unlock()
				<-ctx.Done()
				<-time.After(time.Second) // it has to undo something
				return volume.Mounted{}, ctx.Err()
			},
			tearDown: func(context.Context, types.UID) error {
				if !running.TryLock() {
					t.Error("it is torn down while it is set up")
					return nil
				}
				running.Unlock()
				return nil
			},
		}
		var e events
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}, OnEvent: e.add})
		failed := make(chan error, 1)
		go func() {
			_, err := m.SetUp(t.Context(), pod("1", claim("data")))
			failed <- err
		}()
		synctest.Wait()
		if err := m.TearDown(t.Context(), "1"); err != nil {
			t.Error(err)
		}
		contains(t, <-failed, "the volumes of the pod are being torn down")
		if got := e.all(); len(got) > 0 {
			t.Errorf("users are told of it: %q", got)
		}
		if p.calls() != 1 {
			t.Errorf("it was set up %d times", p.calls())
		}
	})
}

// TestTearDownThatFails is tried again by the caller; until then nothing is set up.
func TestTearDownThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := errors.New("device or resource busy")
		fails := true
		p := &provider{tearDown: func(context.Context, types.UID) error {
			if fails {
				return busy
			}
			return nil
		}}
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}})
		v := pod("1", claim("data"), emptyDir("cache"))
		setUp(t, m, v)
		if err := m.TearDown(t.Context(), "1"); !errors.Is(err, busy) || m.Unmounted("1") {
			t.Errorf("error is %v, unmounted %t", err, m.Unmounted("1"))
		}
		_, err := m.SetUp(t.Context(), v)
		contains(t, err, "are being torn down")
		fails = false
		if err := m.TearDown(t.Context(), "1"); err != nil || !m.Unmounted("1") {
			t.Errorf("error is %v, unmounted %t", err, m.Unmounted("1"))
		}
		setUp(t, m, v) // a static pod comes again under its UID
		if err := m.TearDown(t.Context(), "1"); err != nil {
			t.Error(err)
		}
	})
}

// TestRunEndsThoughSomethingHangs.
func TestRunEndsThoughSomethingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &provider{setUp: func(context.Context, *corev1.Pod, int) (volume.Mounted, error) {
			<-release
			return volume.Mounted{}, nil
		}}
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}})
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := m.SetUp(short, pod("1", claim("data"))); err == nil {
			t.Error("there is no error")
		}
		begin := time.Now()
		if err := m.Run(short); err != nil || time.Since(begin) != 5*time.Second {
			t.Errorf("Run ended after %s with %v, want 5s and nil", time.Since(begin), err)
		}
		close(release)
	})
}

func TestBadConfig(t *testing.T) {
	for want, cfg := range map[string]volume.Config{
		`Config.Root is "pods"`: {Root: "pods"},
		"Config.Resync is -1s":  {Resync: -time.Second},
	} {
		_, err := volume.New(cfg)
		contains(t, err, want)
	}
}

// TestBadNames of what becomes a directory.
func TestBadNames(t *testing.T) {
	m := newManager(t, volume.Config{})
	for _, uid := range []string{"", ".", "..", "a/b", "a\x00"} {
		_, err := m.SetUp(t.Context(), pod(uid, emptyDir("v")))
		contains(t, err, "of the pod cannot name a directory")
		if err := m.TearDown(t.Context(), types.UID(uid)); err != nil || !m.Unmounted(types.UID(uid)) {
			t.Errorf("%q: %v", uid, err)
		}
		_, err = m.SetUp(t.Context(), pod("1", emptyDir(uid)))
		contains(t, err, "of a volume cannot name a directory")
	}
	contains(t, attempt(t, m, pod("2", source("v", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}))), "volumes of this type are not supported")
}

// TestCleanIsNotHeldUp by one pod that cannot be torn down.
func TestCleanIsNotHeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := &provider{tearDown: func(_ context.Context, uid types.UID) error {
			if uid == "a" {
				<-release
			}
			return nil
		}}
		dir := root(t)
		for _, uid := range []string{"a", "b"} {
			write(t, dir+"/pods/"+uid+"/etc-hosts", "x")
		}
		m := newManager(t, volume.Config{Root: dir, Providers: []volume.Provider{p}})
		begin := time.Now()
		err := m.Clean(t.Context(), func(types.UID) bool { return false })
		contains(t, err, `orphaned pod "a" found, but volumes are not cleaned up: tear down volumes of pod a: context deadline exceeded`)
		if got := list(t, dir+"/pods"); len(got) != 1 || time.Since(begin) != 10*time.Second {
			t.Errorf("after %s there is %v", time.Since(begin), got)
		}
		close(release)
		synctest.Wait()
		if err := m.Clean(t.Context(), func(types.UID) bool { return false }); err != nil || len(list(t, dir+"/pods")) > 0 {
			t.Errorf("it is left: %v", err)
		}
	})
}
