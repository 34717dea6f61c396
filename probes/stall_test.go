package probes

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestStallDuring(t *testing.T) {
	const s = time.Second
	tests := []struct {
		name       string
		stall      stall
		rounds     []time.Duration
		began, now time.Duration
		want       bool
	}{
		{"never", stall{next: 10 * s}, nil, 5 * s, 9 * s, false},
		{"before the first round", stall{}, nil, 5 * s, 90 * s, false},
		{"a little late", stall{next: 10 * s}, nil, 5 * s, 11 * s, false},
		{"Run has not come around yet", stall{next: 10 * s}, nil, 5 * s, 12 * s, true},
		{"over, but the attempt is older", stall{next: 10 * s}, []time.Duration{15 * s}, 5 * s, 15 * s, true},
		{"over before the attempt", stall{next: 10 * s}, []time.Duration{15 * s}, 15 * s, 16 * s, false},
		{"a round in time is no stall", stall{next: 10 * s}, []time.Duration{10*s + s/2}, 5 * s, 11 * s, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, at := range tt.rounds {
				tt.stall.round(at)
				tt.stall.next = at + time.Hour
			}
			if got := tt.stall.during(tt.began, tt.now); got != tt.want {
				t.Errorf("during = %t, want %t", got, tt.want)
			}
		})
	}
}

func TestEngineForgivesFailuresDuringAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		r.runTo(2 * time.Minute)
		p := script("f")
		p.takes = 500 * time.Millisecond
		r.add(Container{Ref: ref("a"), Liveness: &Probe{Prober: p, Schedule: Schedule{FailureThreshold: 1}}})
		r.runTo(2*time.Minute + 100*time.Millisecond)
		r.Engine.mu.Lock()
		r.stall.next = r.now() - time.Minute // as if Run had been due then
		r.Engine.mu.Unlock()
		r.runTo(2*time.Minute + 5*time.Second)
		r.wantChanges()
		if made := r.made(); len(made) != 1 || !errors.Is(made[0].Err, errStalled) {
			t.Errorf("attempts: %+v", made)
		}
		r.runTo(2*time.Minute + 11*time.Second)
		r.wantChanges("2m10.5s Liveness failure")
	})
}
