package runtime

import (
	"math"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for n, want := range map[int64]time.Duration{
		0:             0,
		30:            30 * time.Second,
		-1:            0,
		math.MinInt64: 0,
	} {
		if got := seconds(n); got != want {
			t.Errorf("%d seconds are %v, want %v", n, got, want)
		}
	}
	if got := seconds(math.MaxInt64) + 4*defaultTimeout; got < time.Hour {
		t.Errorf("a grace period without end and the default timeout are %v", got)
	}
}
