package soak

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestExceeds(t *testing.T) {
	tests := []struct {
		name   string
		change func(Counts)
		want   []Measure
	}{
		{"the same", func(Counts) {}, nil},
		{"fewer", func(c Counts) { c[Rules]--; c[KubeletGoroutines] -= 30 }, nil},
		{"one mount more", func(c Counts) { c[KubeletMounts]++ }, []Measure{KubeletMounts}},
		{"what is spare", func(c Counts) { c[ProxyFiledes] += spare }, nil},
		{"more than what is spare", func(c Counts) { c[ProxyFiledes] += spare + 1 }, []Measure{ProxyFiledes}},
		{"memory, which has a trend and no limit", func(c Counts) { c[KubeletHeap] *= 2; c[ProxyMemory] *= 2 }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := quietCounts()
			tt.change(c)
			if diff := cmp.Diff(tt.want, c.Exceeds(quietCounts())); diff != "" {
				t.Errorf("measures (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCalms: the baseline is taken when nothing of a pod is left and nothing moves.
func TestCalms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calms := new(soak).calms()
		for _, step := range []struct {
			name   string
			wait   time.Duration
			change func(Counts)
			want   bool
		}{
			{"at once", 0, func(Counts) {}, false},
			{"almost", calm - time.Second, func(Counts) {}, false},
			{"with a rule more", time.Second, func(c Counts) { c[Rules]++ }, false},
			{"after that", calm - time.Second, func(c Counts) { c[Rules]++ }, false},
			{"with a rule less", time.Second, func(Counts) {}, false},
			{"with a folder of a pod", calm, func(c Counts) { c[PodFolders]++ }, false},
			{"still with it", calm, func(c Counts) { c[PodFolders]++ }, false},
			{"without it", time.Second, func(Counts) {}, false},
			{"with some goroutines more, long after", calm, func(c Counts) { c[KubeletGoroutines] += spare }, true},
		} {
			<-time.After(step.wait)
			c := quietCounts()
			step.change(c)
			if got := calms(c); got != step.want {
				t.Errorf("%s: settled is %t, want %t", step.name, got, step.want)
			}
		}
	})
}
