//go:build linux

package netnstest

import (
	"testing"
	"time"
)

func TestPausesWithinATime(t *testing.T) {
	start := time.Unix(1_000_000, 0)
	after := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	p := &pauses{seen: []pause{{after(100), after(400)}, {after(1000), after(1500)}}}
	for _, tt := range []struct {
		name       string
		begin, end int
		want       time.Duration
	}{
		{"between two", 400, 1000, 0},
		{"all", 0, 2000, 800 * time.Millisecond},
		{"inside one", 1100, 1200, 100 * time.Millisecond},
		{"the end of one and the begin of another", 300, 1100, 200 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := p.within(after(tt.begin), after(tt.end)); got != tt.want {
				t.Errorf("within = %v, want %v", got, tt.want)
			}
		})
	}
}
