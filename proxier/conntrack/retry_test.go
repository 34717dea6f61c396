package conntrack

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// What cannot be deleted is tried less and less often, told once, and keeps no other change.
func TestFailuresAreRetriedLessAndLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		c, err := New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var mu sync.Mutex // guards what follows
		works := false
		var at []time.Duration
		var asked []int
		so := func() ([]time.Duration, []int) {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(at), slices.Clone(asked)
		}
		c.find = func(_ context.Context, _ proxier.Family, frontends map[frontend]bool) (seen, deleted int, err error) {
			mu.Lock()
			defer mu.Unlock()
			at, asked = append(at, time.Since(begin).Round(time.Second)), append(asked, len(frontends))
			if !works {
				err = errors.New("device or resource busy")
			}
			return 0, 0, err
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		change := func(port uint16) {
			c.mu.Lock()
			c.pending.add(proxier.IPv4, frontend{addr: addrOf(1), port: port})
			c.wakeUpLocked()
			c.mu.Unlock()
		}
		change(53)
		time.Sleep(100 * time.Second) //nolint:forbidigo // fake time
		seconds := func(n ...int) (out []time.Duration) {
			for _, s := range n {
				out = append(out, time.Duration(s)*time.Second)
			}
			return out
		}
		searched, _ := so()
		if diff := cmp.Diff(seconds(0, 1, 3, 7, 15, 31, 61, 91), searched); diff != "" {
			t.Errorf("it searched after (-want +got):\n%s", diff)
		}
		change(54)
		searched, frontends := so()
		if searched[len(searched)-1] != 100*time.Second || frontends[len(frontends)-1] != 2 {
			t.Errorf("a change at 100 s is searched for after %v, among %v frontends", searched, frontends)
		}
		mu.Lock()
		works = true
		mu.Unlock()
		time.Sleep(time.Minute) //nolint:forbidigo // fake time
		before, _ := so()
		time.Sleep(time.Hour) //nolint:forbidigo // fake time
		if after, _ := so(); len(after) != len(before) {
			t.Errorf("it goes on searching: %v", after)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if warnings := strings.Count(log.String(), "level=WARN"); warnings != 1 {
			t.Errorf("%d warnings, want 1:\n%s", warnings, log.String())
		}
	})
}
