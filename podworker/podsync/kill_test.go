package podsync

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

func TestStopGrace(t *testing.T) {
	ten, sixty, five, endless := int64(10), int64(60), int64(5), int64(1)<<62
	liveness := &Stop{Name: "a", Failed: true, Probe: podstatus.Liveness}
	startup := &Stop{Name: "a", Failed: true, Probe: podstatus.Startup}
	tests := []struct {
		name     string
		pod      *int64
		deletion *int64
		liveness *int64
		stop     *Stop
		want     time.Duration
	}{
		{name: "default of the API", stop: &Stop{Name: "a"}, want: 30 * time.Second},
		{name: "of the pod", pod: &ten, stop: &Stop{Name: "a"}, want: 10 * time.Second},
		{name: "more than a duration holds", pod: &endless, stop: &Stop{Name: "a"}, want: 68 * 365 * 24 * time.Hour},
		{name: "of the probe that failed", pod: &ten, liveness: &sixty, stop: liveness, want: 60 * time.Second},
		{name: "of another probe", pod: &ten, liveness: &sixty, stop: startup, want: 10 * time.Second},
		{name: "no probe failed", pod: &ten, liveness: &sixty, stop: &Stop{Name: "a"}, want: 10 * time.Second},
		{name: "of a container without it", pod: &ten, stop: liveness, want: 10 * time.Second},
		{name: "deleted", pod: &ten, deletion: &five, liveness: &sixty, stop: liveness, want: 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.DeletionGracePeriodSeconds = tt.deletion
			pod.Spec.TerminationGracePeriodSeconds = tt.pod
			pod.Spec.Containers = []corev1.Container{{
				Name: "a", LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: tt.liveness}, StartupProbe: &corev1.Probe{},
			}}
			if got := stopGrace(pod, tt.stop); got != tt.want && (tt.pod != &endless || got < tt.want) {
				t.Errorf("stopGrace = %s, want %s", got, tt.want)
			}
		})
	}
}
