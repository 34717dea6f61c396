package auth

import (
	"testing"
	"testing/synctest"
	"time"
)

// Of too many answers, those go that nobody has asked for the longest.
func TestCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCache[int](3)
		for i := range 3 {
			c.put(key{byte(i)}, i, time.Minute)
		}
		c.get(key{0})
		c.put(key{3}, 3, time.Minute)
		c.put(key{0}, 10, time.Hour)
		want := map[byte]int{0: 10, 2: 2, 3: 3}
		for i := range 4 {
			got, ok := c.get(key{byte(i)})
			if value, kept := want[byte(i)]; ok != kept || got != value {
				t.Errorf("answer %d is %d (%t), want %d (%t)", i, got, ok, value, kept)
			}
		}
		<-time.After(time.Minute)
		for i := range 4 {
			c.get(key{byte(i)})
		}
		if len(c.entries) != 1 || c.recent.Len() != 1 {
			t.Errorf("%d and %d answers are kept after they have expired, want 1", len(c.entries), c.recent.Len())
		}
	})
}
