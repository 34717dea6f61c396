package runtime_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
		s.SetLives("app", runtimetest.Exits(time.Minute, 1))
		c := s.Client(t)
		var got []string
		var last error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range c.Events(t.Context()) {
				if err != nil {
					last = err
					continue
				}
				if e.PodUID != "web-uid" || e.ID == "" {
					t.Errorf("event %+v, want one of the pod web-uid", e)
				}
				got = append(got, e.At.Format("04:05 ")+e.Type.String())
			}
		}()
		synctest.Wait()
		onRunningPod(t, c)
		elapse(2 * time.Minute)
		s.Down()
		<-done
		want := []string{"00:00 created", "00:00 started", "00:00 created", "00:00 started", "01:00 stopped"}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		wantKind(t, last, runtime.ErrRuntimeDown, "GetContainerEvents")
	})
}

func TestEventsEndWithOneError(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault runtimetest.Fault
		want  error
	}{
		{"runtime without events", runtimetest.Fault{Err: status.Error(codes.Unimplemented, "unknown method GetContainerEvents")}, runtime.ErrUnimplemented},
		{"runtime that hangs", runtimetest.Fault{Hang: true}, context.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := runtimetest.Start(t, runtimetest.Config{})
				client := s.Client(t)
				s.Inject("GetContainerEvents", c.fault)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var errs []error
				for _, err := range client.Events(ctx) {
					errs = append(errs, err)
				}
				if len(errs) != 1 || !errors.Is(errs[0], c.want) {
					t.Errorf("errors are %v, want one, %q", errs, c.want)
				}
			})
		})
	}
}

func TestEventsEndWhenTheConsumerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: "web"}}})
		c := s.Client(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range c.Events(t.Context()) {
				return
			}
		}()
		synctest.Wait()
		onRunningPod(t, c)
		<-done
		// The bubble ends only if the stream's goroutines have ended.
	})
}

// elapse lets time pass in a bubble.
func elapse(d time.Duration) { <-time.After(d) }
