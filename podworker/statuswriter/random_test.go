package statuswriter_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

// step is something that happens to a node, to one of its pods where it concerns one.
type step struct {
	What string
	Pod  int
	Wait time.Duration
}

const randomPods = 3

func genSteps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			What: rapid.SampledFrom([]string{
				"run", "ready", "end", "fail", "watch", "old watch", "delete", "finish", "vanish", "outage", "back", "crash",
			}).Draw(t, "what"),
			Pod:  rapid.IntRange(0, randomPods-1).Draw(t, "pod"),
			Wait: time.Duration(rapid.SampledFrom([]int{0, 1, 150, 5000}).Draw(t, "wait ms")) * time.Millisecond,
		}
	}), 1, 40)
}

// world is a node whose Writer dies and comes back, with the API server it tells.
type world struct {
	*server
	t    *testing.T
	dir  string
	w    *statuswriter.Writer
	stop func()
	pods [randomPods]*corev1.Pod
	// before are versions that the watch may deliver late.
	before [randomPods]*corev1.Pod
	// ended has the phase that was set last of pods that have ended.
	ended    map[types.UID]corev1.PodPhase
	finished map[types.UID]bool
}

func (w *world) open() {
	writer, err := statuswriter.Open(statuswriter.Config{Pods: w.client, Dir: w.dir})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = writer.Run(ctx) }()
	w.w, w.stop = writer, func() { cancel(); <-done }
}

// do does a step; the error says what must not be.
func (w *world) do(s step) error {
	pod := w.pods[s.Pod]
	name := pod.Name
	switch s.What {
	case "run":
		return w.w.Set(pod, running(corev1.ConditionFalse))
	case "ready":
		return w.w.Set(pod, running(corev1.ConditionTrue))
	case "end", "fail":
		status := ended(int32(len(s.What) - len("end")))
		if w.ended[pod.UID] == "" {
			w.ended[pod.UID] = status.Phase
		}
		return w.w.Set(pod, status)
	case "watch":
		if now := w.get(name); now != nil {
			w.before[s.Pod] = now
			w.w.Observe(now, "")
		}
	case "old watch":
		if old := w.before[s.Pod]; old != nil && w.get(name) != nil {
			w.w.Observe(old, "")
		}
	case "delete":
		if now := w.delete(name); now != nil {
			w.w.Observe(now, "")
		}
	case "finish":
		w.finished[pod.UID] = true
		if w.ended[pod.UID] == "" {
			w.ended[pod.UID] = corev1.PodFailed
		}
		return w.w.Finished(pod)
	case "vanish":
		w.vanish(name)
		w.w.Gone(pod.UID)
	case "outage", "back":
		w.failWith(nil)
		if s.What == "outage" {
			w.failWith(func(string, string) error { return errDown })
		}
	case "crash":
		w.stop()
		w.open()
		for _, pod := range w.pods { // the watch begins anew
			if now := w.get(pod.Name); now != nil {
				w.w.Observe(now, "")
			} else {
				w.w.Gone(pod.UID)
			}
		}
	}
	return nil
}

// check returns what must not be at any time.
func (w *world) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for uid, phases := range w.seen {
		var end corev1.PodPhase
		for _, p := range phases {
			if end != "" && p != end {
				return fmt.Errorf("phases of %s: %v", uid, phases)
			}
			if p == corev1.PodSucceeded || p == corev1.PodFailed {
				end = p
			}
		}
		if end != "" && end != w.ended[uid] {
			return fmt.Errorf("pod %s was said to end as %q, the API server has %v", uid, w.ended[uid], phases)
		}
	}
	for _, call := range w.calls {
		var name string
		if n, _ := fmt.Sscanf(call, "delete %s", &name); n == 1 && !w.finished[types.UID(name)] {
			return fmt.Errorf("%s was removed before the node had finished with it", name)
		}
	}
	return nil
}

// settle has the API server come back, and returns what is not as it should be then.
func (w *world) settle() error {
	w.failWith(nil)
	pass(2 * time.Minute)
	for _, pod := range w.pods {
		now, end := w.get(pod.Name), w.ended[pod.UID]
		if now != nil && end != "" && now.Status.Phase != end {
			return fmt.Errorf("pod %s ended as %s, the API server has %q", pod.Name, end, now.Status.Phase)
		}
		if !w.w.Acknowledged(pod.UID) {
			return fmt.Errorf("pod %s is not acknowledged", pod.Name)
		}
	}
	if left, err := os.ReadDir(w.dir); err != nil || len(left) > 0 {
		return fmt.Errorf("the journal holds %v, %w", left, err)
	}
	return w.check()
}

// TestNothingTerminalIsLost has pods run, end, be deleted and vanish while the API server
// goes and the process crashes.
func TestNothingTerminalIsLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := genSteps().Draw(rt, "steps")
		dir := t.TempDir()
		var failure error
		synctest.Test(t, func(t *testing.T) {
			w := &world{server: newServer(), t: t, dir: dir, ended: map[types.UID]corev1.PodPhase{}, finished: map[types.UID]bool{}}
			w.delay = 3 * time.Millisecond
			for i := range w.pods {
				name := fmt.Sprint("pod", i)
				w.pods[i] = w.create(newPod(name, types.UID(name)))
			}
			w.open()
			defer func() { w.stop() }()
			for _, pod := range w.pods {
				w.w.Observe(pod, "")
			}
			for _, s := range steps {
				if failure = w.do(s); failure == nil {
					pass(s.Wait)
					failure = w.check()
				}
				if failure != nil {
					return
				}
			}
			failure = w.settle()
		})
		if failure != nil {
			rt.Fatal(failure)
		}
	})
}
