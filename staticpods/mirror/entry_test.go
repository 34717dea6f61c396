package mirror

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/staticpods"
)

func TestNextStep(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	static := func(hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{staticpods.AnnotationHash: hash}}}
	}
	mirror := func(hash string, node types.UID) *corev1.Pod {
		return Project(static(hash), Owner{Name: "node-a", UID: node})
	}
	deleted := mirror("1", "n1")
	deleted.DeletionTimestamp = &metav1.Time{Time: now}
	twoOwners := mirror("1", "n1")
	twoOwners.OwnerReferences = append(twoOwners.OwnerReferences, twoOwners.OwnerReferences[0])
	tests := []struct {
		name   string
		want   *corev1.Pod
		have   *corev1.Pod
		unseen time.Duration // 0: seen
		ending bool
		part   bool
		next   step
	}{
		{name: "nothing", next: done},
		{name: "missing", want: static("1"), next: create},
		{name: "missing while its pod ends", want: static("1"), ending: true, next: waiting},
		{name: "as it should be", want: static("1"), have: mirror("1", "n1"), next: done},
		{name: "as it should be while its pod ends", want: static("1"), have: mirror("1", "n1"), ending: true, next: done},
		{name: "another version", want: static("2"), have: mirror("1", "n1"), next: remove},
		{name: "another version while its pod ends", want: static("2"), have: mirror("1", "n1"), ending: true, next: waiting},
		{name: "another Node", want: static("1"), have: mirror("1", "n0"), next: remove},
		{name: "two owners", want: static("1"), have: twoOwners, next: remove},
		{name: "being deleted", want: static("1"), have: deleted, next: remove},
		{name: "left over", have: mirror("1", "n1"), next: remove},
		{name: "left over while its pod ends", have: mirror("1", "n1"), ending: true, next: waiting},
		{name: "left over as far as is known", have: mirror("1", "n1"), part: true, next: done},
		{name: "another version, sources missing", want: static("2"), have: mirror("1", "n1"), part: true, next: remove},
		{name: "no mirror", want: static("1"), have: &corev1.Pod{}, next: taken},
		{name: "no mirror and nobody cares", have: &corev1.Pod{}, next: done},
		{name: "not in the watch", want: static("1"), have: mirror("1", "n1"), unseen: -time.Second, next: look},
		{name: "not in the watch yet", want: static("1"), have: mirror("1", "n1"), unseen: time.Second, next: done},
		{name: "not in the watch, left over", have: mirror("1", "n1"), unseen: -time.Second, next: look},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := entry{want: tt.want, have: tt.have, unseen: tt.unseen != 0, lookAt: now.Add(tt.unseen)}
			got := e.next(world{now: now, node: "n1", ending: tt.ending, whole: !tt.part})
			if got != tt.next {
				t.Errorf("next step %d, want %d", got, tt.next)
			}
		})
	}
}
