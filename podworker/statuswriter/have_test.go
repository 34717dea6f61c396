package statuswriter_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

// forbidding is an API server without pods, whose Node authorizer refuses a node's questions
// about pods that are not its own.
func forbidding() *server {
	s := newServer()
	s.fail = func(_, name string) error {
		return apierrors.NewForbidden(resource, name, errors.New("no relationship found between node and this object"))
	}
	return s
}

// TestEndOfAPodThatIsGoneWaitsForNobody: a pod was deleted without grace and forgotten, and
// then its container is found in the runtime.
func TestEndOfAPodThatIsGoneWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := forbidding(), t.TempDir()
		w, _ := open(t, statuswriter.Config{Pods: s.client, Dir: dir})
		w.Have(map[types.UID]bool{"another": true})
		pod := newPod("forced", "u1")
		set(t, w, pod, ended(137))
		if err := w.Finished(pod); err != nil {
			t.Fatal(err)
		}
		if !w.Acknowledged(pod.UID) {
			t.Error("the end of a pod that is gone waits")
		}
		pass(time.Minute)
		wantCalls(t, s)
		wantNoJournal(t, dir)
	})
}

// TestJournalOfAPodThatIsGoneWaitsForNobody: a pod was deleted without grace while the node
// was down.
func TestJournalOfAPodThatIsGoneWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, dir := forbidding(), t.TempDir()
		w, stop := open(t, statuswriter.Config{Pods: s.client, Dir: dir})
		pod := newPod("forced", "u1")
		set(t, w, pod, ended(1))
		pass(time.Minute)
		if w.Acknowledged(pod.UID) {
			t.Error("acknowledged by a refusal")
		}
		stop()

		var told []types.UID
		w, _ = open(t, statuswriter.Config{Pods: s.client, Dir: dir, Hooks: statuswriter.Hooks{
			Acknowledged: func(uid types.UID) { told = append(told, uid) },
		}})
		w.Have(map[types.UID]bool{})
		if !w.Acknowledged(pod.UID) || len(told) != 1 {
			t.Errorf("acknowledged %t, told %v", w.Acknowledged(pod.UID), told)
		}
		wantNoJournal(t, dir)
	})
}

func TestPodsThatAreThereAreWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		old, static := s.create(newPod("old", "u1")), newPod("static", "u2")
		static.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
		w.Observe(old, "")
		w.Have(map[types.UID]bool{"u1": true})
		set(t, w, old, ended(0))
		set(t, w, static, running(corev1.ConditionTrue))
		mirror := newPod("static", "m1")
		mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "u2"}
		w.Observe(s.create(mirror), "u2")
		next := s.create(newPod("next", "u3"))
		w.Observe(next, "")
		w.Have(map[types.UID]bool{"u1": true, "m1": true, "u3": true})
		set(t, w, next, ended(0))
		pass(time.Minute)
		wantPhase(t, s, "old", corev1.PodSucceeded)
		wantPhase(t, s, "static", corev1.PodRunning)
		wantPhase(t, s, "next", corev1.PodSucceeded)
	})
}

func wantNoJournal(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the journal holds %v, %v", left, err)
	}
}
