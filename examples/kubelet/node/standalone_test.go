package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/staticpods"
)

func TestShownStartTimeWithoutAnAPIServer(t *testing.T) {
	noon := time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		seen string
		told *metav1.Time
		want *metav1.Time
	}{
		"a pod that an earlier process made":       {seen: "2026-06-01T13:00:00.75Z", told: &metav1.Time{Time: noon}, want: &metav1.Time{Time: noon.Add(time.Hour)}},
		"a pod that began after it was seen":       {seen: "2026-06-01T11:59:58.75Z", told: &metav1.Time{Time: noon}, want: &metav1.Time{Time: noon}},
		"a pod that has no status yet":             {seen: "2026-06-01T13:00:00Z"},
		"a manifest with a time that cannot be so": {seen: "yesterday", told: &metav1.Time{Time: noon}, want: &metav1.Time{Time: noon}},
		"a pod without the annotation":             {told: &metav1.Time{Time: noon}, want: &metav1.Time{Time: noon}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Status: corev1.PodStatus{StartTime: c.told}}
			if c.seen != "" {
				pod.Annotations = map[string]string{staticpods.AnnotationSeen: c.seen}
			}
			if got := sinceSeen(pod).Status.StartTime; !got.Equal(c.want) {
				t.Errorf("start time %v, want %v", got, c.want)
			}
			if !pod.Status.StartTime.Equal(c.told) {
				t.Errorf("the pod itself was changed to %v", pod.Status.StartTime)
			}
		})
	}
}
