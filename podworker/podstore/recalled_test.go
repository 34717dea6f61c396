package podstore_test

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstore"
)

func tolerates(key string, op corev1.TolerationOperator, effect corev1.TaintEffect, seconds ...int64) corev1.Toleration {
	t := corev1.Toleration{Key: key, Operator: op, Effect: effect}
	if len(seconds) > 0 {
		t.TolerationSeconds = &seconds[0]
	}
	return t
}

func TestMayStart(t *testing.T) {
	const (
		unreachable = corev1.TaintNodeUnreachable
		exists      = corev1.TolerationOpExists
		equal       = corev1.TolerationOpEqual
		noExecute   = corev1.TaintEffectNoExecute
	)
	other := tolerates(unreachable, equal, noExecute, 3600)
	other.Value = "other"
	for _, tt := range []struct {
		name string
		// tolerations of the pod, and toleration of the configuration.
		tolerations []corev1.Toleration
		toleration  time.Duration
		// lasts is how long after the contact the pod may start; 0: never, negative: for
		// ever.
		lasts time.Duration
	}{
		{name: "none", lasts: 300 * time.Second},
		{name: "none, and none by default", toleration: -1},
		{name: "none, configured", toleration: time.Hour, lasts: time.Hour},
		{name: "own", tolerations: []corev1.Toleration{tolerates(unreachable, exists, noExecute, 30)}, lasts: 30 * time.Second},
		{name: "for ever", tolerations: []corev1.Toleration{tolerates(unreachable, exists, noExecute)}, lasts: -1},
		{name: "none at all", tolerations: []corev1.Toleration{tolerates(unreachable, exists, noExecute, 0)}},
		{name: "less than none", tolerations: []corev1.Toleration{tolerates(unreachable, exists, noExecute, -5)}},
		{name: "more than fits", tolerations: []corev1.Toleration{tolerates(unreachable, exists, noExecute, math.MaxInt64)}, lasts: 1000 * time.Hour},
		{name: "everything", tolerations: []corev1.Toleration{tolerates("", exists, "")}, lasts: -1},
		{name: "any effect", tolerations: []corev1.Toleration{tolerates(unreachable, exists, "", 60)}, lasts: time.Minute},
		{name: "no value", tolerations: []corev1.Toleration{tolerates(unreachable, equal, noExecute, 60)}, lasts: time.Minute},
		{name: "no operator", tolerations: []corev1.Toleration{tolerates(unreachable, "", noExecute, 60)}, lasts: time.Minute},
		{name: "another value", tolerations: []corev1.Toleration{other}, lasts: 300 * time.Second},
		{name: "another effect", tolerations: []corev1.Toleration{tolerates(unreachable, exists, corev1.TaintEffectNoSchedule)}, lasts: 300 * time.Second},
		{name: "another taint", tolerations: []corev1.Toleration{tolerates(corev1.TaintNodeNotReady, exists, noExecute)}, lasts: 300 * time.Second},
		{name: "an empty key is no wildcard for equal", tolerations: []corev1.Toleration{tolerates("", equal, noExecute)}, lasts: 300 * time.Second},
		{
			name: "the first that matches counts", lasts: time.Minute,
			tolerations: []corev1.Toleration{tolerates(unreachable, exists, noExecute, 60), tolerates("", exists, "")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			contact := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			dir := t.TempDir()
			s := open(t, podstore.Config{Dir: dir})
			pod := newPod("web")
			pod.Spec.Tolerations = tt.tolerations
			if err := s.Replace([]*corev1.Pod{pod}); err != nil {
				t.Fatal(err)
			}
			if err := s.Contact(contact); err != nil {
				t.Fatal(err)
			}
			r := open(t, podstore.Config{Dir: dir, Toleration: tt.toleration}).Recall()
			may := func(after time.Duration) bool {
				ok, _ := r.MayStart(r.Pods[0], contact.Add(after))
				return ok
			}
			forever := tt.lasts < 0
			if got, want := may(0), tt.lasts != 0; got != want {
				t.Errorf("at the contact: %t, want %t", got, want)
			}
			if tt.lasts > 0 && !may(tt.lasts-time.Second) {
				t.Error("too early given up")
			}
			if got := may(tt.lasts); tt.lasts > 0 && tt.lasts < 1000*time.Hour && got {
				t.Error("too late given up")
			}
			if got := may(100 * 365 * 24 * time.Hour); got != (forever || tt.lasts == 1000*time.Hour) {
				t.Errorf("a century later: %t", got)
			}
			if got := may(-time.Second); got != forever {
				t.Errorf("with a clock that is behind: %t, want %t", got, forever)
			}
		})
	}
}

// TestNobodyKnowsTheLastContact: only what tolerates an unreachable node for ever starts.
func TestNobodyKnowsTheLastContact(t *testing.T) {
	r := open(t, podstore.Config{Dir: t.TempDir()}).Recall()
	pod := newPod("web")
	if ok, _ := r.MayStart(pod, time.Unix(10, 0)); ok {
		t.Error("a pod with a bounded toleration may start")
	}
	pod.Spec.Tolerations = []corev1.Toleration{tolerates("", corev1.TolerationOpExists, "")}
	if ok, until := r.MayStart(pod, time.Unix(10, 0)); !ok || !until.IsZero() {
		t.Errorf("a pod that tolerates everything: %t, until %s", ok, until)
	}
}
