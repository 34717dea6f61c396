package proxier_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// untidy is a Backend whose Resets leave something that takes a few calls to remove.
type untidy struct {
	*proxiertest.Backend
	begin time.Time
	left  int
	at    []string
}

func (b *untidy) Reset(ctx context.Context, s *proxier.State) error {
	b.left = 3
	return b.Backend.Reset(ctx, s)
}

func (b *untidy) Sweep(context.Context) error {
	b.at = append(b.at, fmt.Sprint(time.Since(b.begin)))
	if b.left--; b.left > 0 {
		return errors.New("busy")
	}
	return nil
}

// What a Reset leaves is removed without another Reset, and nothing is asked for
// afterwards.
func TestRunSweepsUntilNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &untidy{Backend: proxiertest.NewBackend(t), begin: time.Now()}
		p, err := proxier.New(b, proxier.Config{})
		if err != nil {
			t.Fatal(err)
		}
		feed := p.Feed("objects")
		feed.Synced()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		pass(150 * time.Millisecond)
		feed.SetService(clusterService(1)) // a change in between keeps nobody
		pass(time.Hour)
		p.RequestReset()
		pass(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run() = %v", err)
		}
		want := []string{"100ms", "300ms", "700ms", "1h0m0.25s", "1h0m0.45s", "1h0m0.85s"}
		if diff := cmp.Diff(want, b.at); diff != "" {
			t.Errorf("the Backend was swept at (-want +got):\n%s", diff)
		}
	})
}
