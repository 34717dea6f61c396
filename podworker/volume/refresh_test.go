//go:build linux

package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

func conf() volume.Object {
	return volume.Object{Kind: volume.ConfigMaps, Namespace: "shop", Name: "conf"}
}

// TestChangedObject reaches the volumes of all pods that show it, and no others.
func TestChangedObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o objects
		o.setConfigMap("conf", map[string]string{"a": "1", "gone": "x"})
		o.setConfigMap("other", map[string]string{"a": "other"})
		m := newManager(t, volume.Config{Objects: &o})
		run(t, m)
		paths := map[string]string{}
		for i := range 5 {
			uid := fmt.Sprint(i)
			paths[uid] = setUp(t, m, pod(uid, configMap("v", "conf")))["v"]
		}
		other := setUp(t, m, pod("other", configMap("v", "other")))["v"]
		asked := o.questions()
		o.setConfigMap("conf", map[string]string{"a": "2", "new": "y"})
		begin := time.Now()
		m.Changed(conf())
		synctest.Wait()
		for uid, path := range paths {
			if diff := cmp.Diff(map[string]string{"a": "2", "new": "y"}, files(t, path)); diff != "" {
				t.Errorf("pod %s: (-want +got)\n%s", uid, diff)
			}
		}
		if time.Since(begin) != 0 || o.questions() != asked+5 || read(t, other+"/a") != "other" {
			t.Errorf("it took %s and %d questions, want none and 5", time.Since(begin), o.questions()-asked)
		}
		// A pod that goes is not refreshed any more.
		if err := m.TearDown(t.Context(), "0"); err != nil {
			t.Error(err)
		}
		m.Changed(conf())
		synctest.Wait()
		if got := o.questions() - asked; got != 9 {
			t.Errorf("there were %d questions, want 9", got)
		}
	})
}

// TestResync: a change that nobody told of is seen within a minute and a half.
func TestResync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o objects
		o.setConfigMap("conf", map[string]string{"a": "1"})
		m := newManager(t, volume.Config{Objects: &o})
		run(t, m)
		path := setUp(t, m, pod("1", configMap("v", "conf")))["v"]
		for round := range 5 {
			want := fmt.Sprint("round ", round)
			o.setConfigMap("conf", map[string]string{"a": want})
			asked := o.questions()
			<-time.After(90*time.Second + time.Millisecond)
			synctest.Wait()
			if got := read(t, path+"/a"); got != want {
				t.Errorf("round %d: it is %q", round, got)
			}
			if n := o.questions() - asked; n < 1 || n > 2 {
				t.Errorf("round %d: %d questions", round, n)
			}
		}
	})
}

// TestRefreshAt: a provider's volume is set up again when it says so, and only then.
func TestRefreshAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := &provider{setUp: func(_ context.Context, _ *corev1.Pod, call int) (volume.Mounted, error) {
			switch call {
			case 1:
				return volume.Mounted{Path: "/mnt", RefreshAt: time.Now().Add(time.Hour)}, nil
			case 2:
				return volume.Mounted{}, errors.New("no token")
			}
			return volume.Mounted{Path: "/mnt"}, nil
		}}
		var e events
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}, OnEvent: e.add})
		run(t, m)
		setUp(t, m, pod("1", claim("data")))
		<-time.After(24 * time.Hour)
		synctest.Wait()
		var got []time.Duration
		for _, at := range p.times {
			got = append(got, at.Sub(begin))
		}
		if diff := cmp.Diff([]time.Duration{0, time.Hour, time.Hour + 500*time.Millisecond}, got); diff != "" {
			t.Errorf("it was set up at (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff([]string{`web-1: Warning FailedMount MountVolume.SetUp failed for volume "data" : no token`}, e.all()); diff != "" {
			t.Errorf("events (-want +got)\n%s", diff)
		}
	})
}

// TestRefreshAtOfThePast: a provider whose time has come already is asked twice a second,
// not without a pause.
func TestRefreshAtOfThePast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &provider{setUp: func(context.Context, *corev1.Pod, int) (volume.Mounted, error) {
			return volume.Mounted{Path: "/mnt", RefreshAt: time.Now().Add(-time.Minute)}, nil
		}}
		m := newManager(t, volume.Config{Providers: []volume.Provider{p}})
		run(t, m)
		setUp(t, m, pod("1", claim("data")))
		<-time.After(10*time.Second + 250*time.Millisecond)
		synctest.Wait()
		if got, want := len(p.times), 21; got != want {
			t.Errorf("it was set up %d times in ten seconds, want %d", got, want)
		}
	})
}

// TestOldContentStays when an object cannot be had any more: for running containers and for
// those that start, also of the next process.
func TestOldContentStays(t *testing.T) {
	for _, why := range []string{"the API server does not answer", "it was deleted"} {
		synctest.Test(t, func(t *testing.T) {
			var o objects
			var e events
			o.setConfigMap("conf", map[string]string{"a": "1"})
			dir := root(t)
			cfg := volume.Config{Root: dir, Objects: &o, OnEvent: e.add}
			m := newManager(t, cfg)
			run(t, m)
			p := pod("1", configMap("v", "conf"))
			path := setUp(t, m, p)["v"]
			want := why
			if why == "it was deleted" {
				want = `configmap "conf" not found`
				o.mu.Lock()
				delete(o.configMaps, "conf")
				o.mu.Unlock()
			} else {
				o.fail(errors.New(why))
			}
			m.Changed(conf())
			synctest.Wait()
			begin := time.Now()
			for _, m := range []*volume.Manager{m, newManager(t, cfg)} {
				if setUp(t, m, p)["v"] != path || read(t, path+"/a") != "1" || time.Since(begin) != 0 {
					t.Error("the content of before is gone, or somebody waits for it")
				}
			}
			if got := e.all(); len(got) == 0 || !strings.HasSuffix(got[0], want) {
				t.Errorf("events are %q, want one with %q", got, want)
			}
			o.fail(nil)
			o.setConfigMap("conf", map[string]string{"a": "2"})
			<-time.After(time.Minute)
			synctest.Wait()
			if read(t, path+"/a") != "2" {
				t.Error("the new content does not come")
			}
		})
	}
}

// TestHalfOfTheContentIsNone: what a process that died has begun is no content of before.
func TestHalfOfTheContentIsNone(t *testing.T) {
	var o objects
	o.fail(errors.New("no answer"))
	dir := root(t)
	for _, path := range []string{"volumes/kubernetes.io~configmap/v", "plugins/kubernetes.io~empty-dir/wrapped_v"} {
		if err := os.MkdirAll(dir+"/pods/1/"+path, 0o755); err != nil {
			t.Fatal(err)
		}
		contains(t, attempt(t, newManager(t, volume.Config{Root: dir, Objects: &o}), pod("1", configMap("v", "conf"))), "no answer")
	}
	boot := read(t, "/proc/sys/kernel/random/boot_id")
	write(t, dir+"/pods/1/plugins/kubernetes.io~empty-dir/wrapped_v/ready", boot)
	m := newManager(t, volume.Config{Root: dir, Objects: &o})
	contains(t, attempt(t, m, pod("1", configMap("v", "conf"))), "no answer")
	o.fail(nil)
	o.setConfigMap("conf", map[string]string{"a": "1"})
	m.Changed(conf())
	if path := setUp(t, m, pod("1", configMap("v", "conf")))["v"]; read(t, path+"/a") != "1" {
		t.Error("the content does not come")
	}
}

// TestContentOfBeforeTheReboot may not have reached the disk: it is used only after it was
// compared.
func TestContentOfBeforeTheReboot(t *testing.T) {
	var o objects
	o.setConfigMap("conf", map[string]string{"a": "1"})
	dir := root(t)
	cfg := volume.Config{Root: dir, Objects: &o}
	p := pod("1", configMap("v", "conf"))
	path := setUp(t, newManager(t, cfg), p)["v"]
	mark := dir + "/pods/1/plugins/kubernetes.io~empty-dir/wrapped_v/ready"
	ofThisBoot := read(t, mark)
	write(t, mark, "another boot")
	write(t, path+"/..data/a", "") // torn
	o.fail(errors.New("no answer"))
	m := newManager(t, cfg)
	contains(t, attempt(t, m, p), "no answer")
	o.fail(nil)
	m.Changed(conf())
	setUp(t, m, p)
	if read(t, path+"/a") != "1" || read(t, mark) != ofThisBoot {
		t.Errorf("the file holds %q, the mark %q", read(t, path+"/a"), read(t, mark))
	}
}

// TestImmutableObject is read once: it cannot change.
func TestImmutableObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o objects
		o.setConfigMap("conf", map[string]string{"a": "1"})
		o.configMaps["conf"].Immutable = new(true)
		m := newManager(t, volume.Config{Objects: &o})
		run(t, m)
		p := pod("1", configMap("v", "conf"))
		setUp(t, m, p)
		<-time.After(time.Hour)
		m.Changed(conf())
		setUp(t, m, p.DeepCopy())
		synctest.Wait()
		if got := o.questions(); got != 1 {
			t.Errorf("it was read %d times, want once", got)
		}
	})
}

// TestKernelChangedPod: labels and annotations reach the volumes that show them.
func TestKernelChangedPod(t *testing.T) {
	needsMounts(t)
	synctest.Test(t, func(t *testing.T) {
		m := newManager(t, volume.Config{})
		run(t, m)
		items := []corev1.DownwardAPIVolumeFile{field("labels", "metadata.labels"), field("one", "metadata.annotations['note']")}
		p := pod("1",
			source("v", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}),
			projected(corev1.VolumeProjection{DownwardAPI: &corev1.DownwardAPIProjection{Items: items}}))
		p.Labels = map[string]string{"b": "2", "a": "1"}
		paths := setUp(t, m, p)
		next := p.DeepCopy()
		next.Labels["a"] = "changed"
		next.Annotations = map[string]string{"note": "line\nline"}
		m.Update(next)
		m.Update(pod("unknown"))
		synctest.Wait()
		want := map[string]string{"labels": "a=\"changed\"\nb=\"2\"", "one": "line\nline"}
		for name, path := range paths {
			if diff := cmp.Diff(want, files(t, path)); diff != "" {
				t.Errorf("%s: (-want +got)\n%s", name, diff)
			}
		}
		// A SetUp with another version does the same, and without Run.
		last := next.DeepCopy()
		last.Labels = nil
		setUp(t, m, last)
		if got := read(t, paths["v"]+"/labels"); got != "" {
			t.Errorf("labels are %q, want none", got)
		}
		if err := m.TearDown(t.Context(), types.UID("1")); err != nil {
			t.Error(err)
		}
	})
}

// TestKernelTokenIsRenewed when its time has come, without anybody's doing.
func TestKernelTokenIsRenewed(t *testing.T) {
	needsMounts(t)
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		m := newManager(t, volume.Config{Tokens: renewing{begin: begin, every: 10 * time.Second}})
		run(t, m)
		dir := setUp(t, m, pod("1", projected(corev1.VolumeProjection{
			ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"},
		})))["all"]
		for _, after := range []time.Duration{5 * time.Second, 10 * time.Second, 10 * time.Second} {
			<-time.After(after)
			synctest.Wait()
			want := fmt.Sprint("token ", int(time.Since(begin)/(10*time.Second)))
			if got := read(t, dir+"/token"); got != want {
				t.Errorf("after %s it is %q, want %q", time.Since(begin), got, want)
			}
		}
		if err := m.TearDown(t.Context(), "1"); err != nil {
			t.Error(err)
		}
	})
}

// renewing has a new token every so often.
type renewing struct {
	begin time.Time
	every time.Duration
}

func (r renewing) Token(context.Context, *corev1.Pod, *corev1.ServiceAccountTokenProjection) ([]byte, time.Time, error) {
	n := time.Since(r.begin) / r.every
	return []byte(fmt.Sprint("token ", int(n))), r.begin.Add((n + 1) * r.every), nil
}
