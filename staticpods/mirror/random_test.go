package mirror_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// TestWhateverHappensMirrorsFollow lets manifests change, users delete, the API server
// fail and forget, the watch lag, Nodes come and go and the process restart. When all of
// that is over, the API server has the mirrors that it should have, and nothing more is
// done.
func TestWhateverHappensMirrorsFollow(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playAtRandom(t, rand.New(rand.NewPCG(seed, 7))) })
		})
	}
}

// chaos is what a random test has done so far.
type chaos struct {
	*bench
	r      *rand.Rand
	gens   map[string]int // of the static pods there are
	faulty *atomic.Uint64
	nodes  int
}

func playAtRandom(t *testing.T, r *rand.Rand) {
	t.Helper()
	s := newServer()
	c := &chaos{bench: newBench(t, s, randomLag(r)), r: r, gens: map[string]int{}, faulty: &atomic.Uint64{}}
	s.failWith(c.fault)
	for range 60 {
		c.act()
		after(time.Duration(r.IntN(4000)) * time.Millisecond)
	}
	c.faulty.Store(0)
	if s.node == "" {
		s.setNode("last")
	}
	c.keeper.Wake()
	for name := range c.ending.names {
		c.setEnding(name, false)
	}
	c.tell()
	after(5 * time.Minute)
	c.compare()
	c.checkCalls()
	c.forget()
	after(time.Hour)
	for _, call := range c.made() {
		if !c.taken(call) {
			t.Errorf("at rest, call %q", call)
		}
	}
}

func randomLag(r *rand.Rand) time.Duration { return time.Duration(r.IntN(3)) * time.Second }

// fault fails a share of the calls, in one of the ways in which they do. It is called
// with the server locked.
func (c *chaos) fault(_ string, name types.NamespacedName) error {
	switch n := c.faulty.Load(); {
	case n == 0:
		return nil
	case n == 1:
		return errDown
	case (n+uint64(len(c.calls)))%3 == 0:
		return apierrors.NewTooManyRequests("slow down", 1)
	case (n+uint64(len(c.calls)))%3 == 1:
		return refusal(name)
	}
	return nil
}

// act does one thing.
func (c *chaos) act() {
	name := string("abcd"[c.r.IntN(4)])
	full := types.NamespacedName{Namespace: "kube-system", Name: name + "-" + nodeName}
	switch c.r.IntN(12) {
	case 0, 1, 2:
		c.gens[name]++
		c.tell()
	case 3:
		delete(c.gens, name)
		c.tell()
	case 4:
		c.userDeletes(full, 0)
	case 5:
		c.userDeletes(full, 30)
	case 6:
		c.faulty.Store(uint64(c.r.IntN(9)))
	case 7:
		c.faulty.Store(0)
	case 8:
		c.setEnding(full, c.r.IntN(2) == 0)
	case 9:
		c.foreign(full)
	case 10:
		c.newNode()
	case 11:
		c.stop()
		c.bench = newBench(c.t, c.server, randomLag(c.r))
		c.tell()
	}
}

// tell tells the Keeper what static pods there are.
func (c *chaos) tell() {
	var pods []*corev1.Pod
	for name, gen := range c.gens {
		pods = append(pods, static(name, fmt.Sprint(gen)))
	}
	c.want(pods...)
}

// foreign puts a pod of another in place of whatever has the name, or takes it away.
func (c *chaos) foreign(name types.NamespacedName) {
	if pod := c.get(name); pod != nil {
		c.userDeletes(name, 0)
		return
	}
	pod := static("x", "1")
	c.nodes++
	pod.Name, pod.UID, pod.Annotations = name.Name, types.UID(fmt.Sprint("foreign", c.nodes)), nil
	c.put(pod)
}

// newNode deletes the Node with its mirrors, or makes another.
func (c *chaos) newNode() {
	c.nodes++
	if c.r.IntN(2) == 0 {
		c.setNode("")
		return
	}
	c.setNode(types.UID(fmt.Sprint("n", c.nodes)))
}

// compare wants the mirrors that there should be, and nothing else but pods of others.
func (c *chaos) compare() {
	c.t.Helper()
	want, got := map[string]string{}, map[string]string{}
	for name, gen := range c.gens {
		want["kube-system/"+name+"-"+nodeName] = fmt.Sprintf("%s-%d owned by %s", name, gen, c.node)
	}
	for name, pod := range c.pods {
		if strings.HasPrefix(string(pod.UID), "foreign") {
			delete(want, name.String())
			continue
		}
		if pod.DeletionTimestamp != nil {
			c.t.Errorf("%s is being deleted", name)
		}
		got[name.String()] = fmt.Sprintf("%s owned by %s", pod.Annotations[corev1.MirrorPodAnnotationKey], pod.OwnerReferences[0].UID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("mirrors (-want +got):\n%s\ncalls: %q", diff, c.made())
	}
}

// checkCalls wants every deletion to name one mirror, and to be at once.
func (c *chaos) checkCalls() {
	c.t.Helper()
	for _, call := range c.made() {
		words := strings.Fields(call)
		if words[0] == "delete" && (len(words) != 3 || !strings.HasPrefix(words[2], "m")) {
			c.t.Errorf("call %q", call)
		}
	}
}

// taken reports whether a call is about a name that another pod has.
func (c *chaos) taken(call string) bool {
	namespace, name, _ := strings.Cut(strings.Fields(call)[1], "/")
	pod := c.get(types.NamespacedName{Namespace: namespace, Name: name})
	return pod != nil && strings.HasPrefix(string(pod.UID), "foreign")
}
