package mirror_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/staticpods/mirror"
)

// after lets time pass.
func after(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
	synctest.Wait()
}

// wantCalls compares the calls since the last time.
func (b *bench) wantCalls(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.made()); diff != "" {
		b.t.Errorf("calls (-want +got):\n%s", diff)
	}
	b.forget()
}

// wantMirror wants a mirror of a version of the meter.
func (b *bench) wantMirror(uid types.UID, hash string) {
	b.t.Helper()
	pod := b.get(meter())
	if pod == nil {
		b.t.Fatalf("there is no mirror, want %s of %s", uid, hash)
	}
	if pod.UID != uid || pod.Annotations[corev1.MirrorPodAnnotationKey] != hash || pod.DeletionTimestamp != nil {
		b.t.Errorf("the mirror is %s of %s, deleted %v; want %s of %s", pod.UID, pod.Annotations[corev1.MirrorPodAnnotationKey], pod.DeletionTimestamp, uid, hash)
	}
}

const (
	createMeter = "create kube-system/meter-node-a"
	deleteMeter = "delete kube-system/meter-node-a "
	getMeter    = "get kube-system/meter-node-a"
)

func TestMirrorAppearsChangesAndVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newServer(), 0)
		after(time.Minute)
		b.wantCalls()
		b.want(static("meter", "1"))
		synctest.Wait()
		b.wantCalls(createMeter)
		b.wantMirror("m1", "meter-1")
		b.want(static("meter", "1"))
		after(time.Hour)
		b.wantCalls() // nothing to do, so nothing is done
		b.want(static("meter", "2"))
		synctest.Wait()
		b.wantCalls(deleteMeter+"m1", createMeter)
		b.wantMirror("m2", "meter-2")
		b.want()
		synctest.Wait()
		b.wantCalls(deleteMeter + "m2")
		after(time.Hour)
		b.wantCalls()
	})
}

func TestDeletedMirrorComesBack(t *testing.T) {
	for _, tt := range []struct {
		name  string
		grace int64
		want  []string
	}{
		{"gracefully", 30, []string{deleteMeter + "m1", createMeter}},
		{"by force", 0, []string{getMeter, createMeter}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newServer(), 0)
				b.want(static("meter", "1"))
				after(time.Second)
				b.forget()
				b.userDeletes(meter(), tt.grace)
				synctest.Wait()
				b.wantCalls(tt.want...)
				b.wantMirror("m2", "meter-1")
				after(time.Hour)
				b.wantCalls()
			})
		})
	}
}

// TestLateWatchDeletesNoSuccessor: a user deletes the mirror, and the watch is two
// seconds behind throughout.
func TestLateWatchDeletesNoSuccessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newServer(), 2*time.Second)
		b.want(static("meter", "1"))
		after(30 * time.Second)
		b.wantCalls(createMeter)
		b.userDeletes(meter(), 30)
		after(time.Minute)
		b.wantCalls(deleteMeter+"m1", createMeter)
		b.wantMirror("m2", "meter-1")
	})
}

// TestNodeThatIsDeletedHasNoMirrors: the Node is deleted and its mirrors with it; two
// minutes later there is a new one.
func TestNodeThatIsDeletedHasNoMirrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newServer(), 0)
		b.want(static("meter", "1"))
		after(time.Minute)
		b.wantMirror("m1", "meter-1")
		b.forget()
		b.setNode("")
		b.userDeletes(meter(), 0)
		after(2 * time.Minute)
		b.mu.Lock()
		asked := b.asked
		b.mu.Unlock()
		if asked < 2 || asked > 12 {
			t.Errorf("the Node was asked for %d times in two minutes", asked)
		}
		b.wantCalls()
		b.setNode("n2")
		after(time.Minute)
		b.wantCalls(getMeter, createMeter)
		if owner := b.get(meter()).OwnerReferences[0].UID; owner != "n2" {
			t.Errorf("the mirror belongs to %s, want n2", owner)
		}
	})
}

func TestMirrorOfAnotherNodeIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newServer(), 0)
		b.want(static("meter", "1"))
		after(time.Minute)
		b.forget()
		b.setNode("n2")
		b.keeper.Wake()
		synctest.Wait()
		b.wantCalls(deleteMeter+"m1", createMeter)
		b.wantMirror("m2", "meter-1")
	})
}

// TestMirrorStaysWhileItsPodEnds: also when the manifest comes back meanwhile, or
// another version of it does.
func TestMirrorStaysWhileItsPodEnds(t *testing.T) {
	for _, tt := range []struct {
		name string
		then []*corev1.Pod
		want []string
	}{
		{"the manifest is gone", nil, []string{deleteMeter + "m1"}},
		{"the manifest is back", []*corev1.Pod{static("meter", "1")}, nil},
		{"another version", []*corev1.Pod{static("meter", "2")}, []string{deleteMeter + "m1", createMeter}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newServer(), 0)
				b.want(static("meter", "1"))
				after(time.Second)
				b.forget()
				b.setEnding(meter(), true)
				b.want()
				after(20 * time.Second)
				b.want(tt.then...)
				after(20 * time.Second)
				b.wantCalls()
				b.setEnding(meter(), false)
				after(2 * time.Second)
				b.wantCalls(tt.want...)
			})
		})
	}
}

// TestRestartTakesOverAndCleansUp: what an earlier process left is kept where it is
// right, and removed once every static pod is known.
func TestRestartTakesOverAndCleansUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := newBench(t, s, 0)
		b.want(static("meter", "1"), static("left", "1"), static("edited", "1"))
		after(time.Second)
		b.stop()
		s.forget()

		b = newBench(t, s, 0)
		b.keeper.Want(mirror.Set{Pods: []*corev1.Pod{static("meter", "1")}, Partial: true})
		after(time.Minute)
		b.wantCalls()
		b.want(static("meter", "1"), static("edited", "2"))
		synctest.Wait()
		got := b.made()
		slices.Sort(got)
		if diff := cmp.Diff([]string{
			"create kube-system/edited-node-a",
			"delete kube-system/edited-node-a " + string(uidOf(t, got, "edited")),
			"delete kube-system/left-node-a " + string(uidOf(t, got, "left")),
		}, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// uidOf returns the UID of the one call that deletes a pod.
func uidOf(t *testing.T, calls []string, name string) types.UID {
	t.Helper()
	for _, call := range calls {
		if uid, ok := strings.CutPrefix(call, "delete kube-system/"+name+"-node-a "); ok {
			return types.UID(uid)
		}
	}
	t.Errorf("no call deletes %s", name)
	return ""
}

// TestPodOfOthersIsLeftAlone: a pod that is nobody's mirror has the name.
func TestPodOfOthersIsLeftAlone(t *testing.T) {
	for _, node := range []string{nodeName, "node-b", ""} {
		t.Run("on "+node, func(t *testing.T) { leaveAlone(t, node) })
	}
}

func leaveAlone(t *testing.T, node string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newServer(), 0)
		theirs := static("meter", "1")
		theirs.UID, theirs.Annotations, theirs.Spec.NodeName = "theirs", nil, node
		b.put(theirs)
		b.want(static("meter", "1"), static("other", "1"))
		after(time.Hour)
		if pod := b.get(meter()); pod == nil || pod.UID != "theirs" {
			t.Fatalf("the pod of another is %v", pod)
		}
		if b.get(types.NamespacedName{Namespace: "kube-system", Name: "other-node-a"}) == nil {
			t.Error("another static pod has no mirror")
		}
		for _, call := range b.made() {
			if strings.HasPrefix(call, "delete") {
				t.Errorf("call %q", call)
			}
		}
		if n := len(b.made()); n > 150 {
			t.Errorf("%d calls in an hour", n)
		}
		b.userDeletes(meter(), 0)
		after(2 * time.Minute)
		b.wantMirror("m2", "meter-1")
	})
}

func TestOutageIsSurvivedAndAskedSparingly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		b := newBench(t, s, 0)
		attempts := 0
		s.failWith(func(string, types.NamespacedName) error { attempts++; return errDown })
		var pods []*corev1.Pod
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
			pods = append(pods, static(name, "1"))
		}
		b.want(pods...)
		after(10 * time.Minute)
		s.mu.Lock()
		asked := attempts
		s.mu.Unlock()
		if asked < 10 || asked > 90 {
			t.Errorf("%d calls for ten pods in ten minutes of outage", asked)
		}
		s.failWith(nil)
		after(20 * time.Second)
		if got := b.made(); len(got) != len(pods) {
			t.Errorf("calls after the outage %q, want a mirror for each of %d", got, len(pods))
		}
	})
}

// TestRefusalHoldsUpNobodyElse: one mirror is refused, as by a policy, until it is not.
func TestRefusalHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newServer(), 0)
		b.want(static("meter", "1"), static("other", "1"))
		tries := 0
		b.failWith(func(verb string, name types.NamespacedName) error {
			if verb == "create" && name == meter() {
				tries++
				return refusal(name)
			}
			return nil
		})
		after(time.Hour)
		b.wantCalls("create kube-system/other-node-a")
		b.mu.Lock()
		if tries < 30 || tries > 75 {
			t.Errorf("%d attempts in an hour", tries)
		}
		b.mu.Unlock()
		b.failWith(nil)
		after(time.Minute)
		b.wantMirror("m2", "meter-1")
	})
}

func TestNewSaysWhatIsMissing(t *testing.T) {
	s := newServer()
	good := mirror.Config{Name: nodeName, Pods: s.client, Node: s.Node}
	for _, tt := range []struct {
		name   string
		change func(*mirror.Config)
		want   string
	}{
		{"no name", func(c *mirror.Config) { c.Name = "" }, "Config.Name is empty"},
		{"a bad name", func(c *mirror.Config) { c.Name = "Node A" }, `Config.Name "Node A"`},
		{"no pods", func(c *mirror.Config) { c.Pods = nil }, "Config.Pods is nil"},
		{"no node", func(c *mirror.Config) { c.Node = nil }, "Config.Node is nil"},
		{"a negative timeout", func(c *mirror.Config) { c.Timeout = -1 }, "Config.Timeout is -1ns"},
		{"good", func(*mirror.Config) {}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := good
			tt.change(&cfg)
			_, err := mirror.New(cfg)
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
