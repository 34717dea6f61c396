package statuswriter_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodekit-go/nodekit/podworker/statuswriter"
)

// static is a pod of a manifest.
func static() *corev1.Pod {
	pod := newPod("etcd-node-a", "static")
	pod.Annotations = map[string]string{"kubernetes.io/config.source": "file"}
	return pod
}

// TestMirrorIsWrittenAfterARefusal: a watch shows a mirror once, so that nobody brings it
// back to mind when the API server is well again.
func TestMirrorIsWrittenAfterARefusal(t *testing.T) {
	for name, refusal := range map[string]error{
		"credentials have expired": apierrors.NewUnauthorized("no"),
		"forbidden":                apierrors.NewForbidden(resource, "etcd-node-a", errors.New("no")),
		"a webhook has failed":     apierrors.NewInternalError(errors.New("failed calling webhook")),
		"invalid":                  apierrors.NewBadRequest("no"),
		"conflict":                 apierrors.NewConflict(resource, "etcd-node-a", errors.New("no")),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, pod := newServer(), static()
				w, _ := open(t, statuswriter.Config{Pods: s.client, Dir: t.TempDir()})
				w.Observe(s.mirror(pod.Name, "mirror-1"), pod.UID)
				s.failWith(func(string, string) error { return refusal })
				set(t, w, pod, ended(0))
				pass(time.Second / 2)
				if w.Acknowledged(pod.UID) {
					t.Error("the API server is said to know of an end that it refused")
				}
				s.failWith(nil)
				pass(time.Minute)
				wantPhase(t, s, pod.Name, corev1.PodSucceeded)
				wantCalls(t, s, "patch etcd-node-a", "get etcd-node-a", "patch etcd-node-a")
				if !w.Acknowledged(pod.UID) {
					t.Error("the end is not acknowledged")
				}
			})
		})
	}
}

// TestAnswerOfAMirrorThatWasReplaced: whatever the API server says of the one before, the
// next one is written.
func TestAnswerOfAMirrorThatWasReplaced(t *testing.T) {
	for name, answer := range map[string]error{
		"it is another one by now":   apierrors.NewConflict(resource, "etcd-node-a", errors.New("the UID does not match")),
		"it was gone":                apierrors.NewNotFound(resource, "etcd-node-a"),
		"it was written just before": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, pod := newServer(), static()
				w, _ := open(t, statuswriter.Config{Pods: s.client})
				w.Observe(s.mirror(pod.Name, "mirror-1"), pod.UID)
				replaced := false
				s.after("patch", func(err error) error {
					if replaced {
						return err
					}
					replaced = true
					s.vanish(pod.Name)
					w.Gone("mirror-1")
					w.Observe(s.mirror(pod.Name, "mirror-2"), pod.UID)
					return answer
				})
				set(t, w, pod, running(corev1.ConditionTrue))
				pass(time.Minute)
				wantPhase(t, s, pod.Name, corev1.PodRunning)
			})
		})
	}
}

// TestWhatOthersWriteAfterACallIsWrittenOver although it was observed before the answer to
// that call.
func TestWhatOthersWriteAfterACallIsWrittenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		pod := s.create(newPod("web", "u1"))
		w, _ := open(t, statuswriter.Config{Pods: s.client})
		w.Observe(pod, "")
		overwritten := false
		s.after("patch", func(err error) error {
			if !overwritten {
				overwritten = true
				got := s.get("web")
				got.Status.PodIP = "203.0.113.1"
				w.Observe(s.create(got), "")
			}
			return err
		})
		set(t, w, pod, running(corev1.ConditionTrue))
		pass(time.Minute)
		if got := s.get("web").Status.PodIP; got != "" {
			t.Errorf("the API server has address %q of somebody else", got)
		}
		wantCalls(t, s, "patch web", "patch web")
	})
}
