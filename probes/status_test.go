package probes

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEngineStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Config{})
		long := strings.Repeat("x", 3*maxKept)
		answers := []struct {
			res Result
			err error
		}{
			{res: Result{Outcome: Success, Message: "ok"}},
			{res: Result{Outcome: Failure, Message: long}},
			{err: errors.New("no runtime")},
			{err: errors.New("no runtime")},
			{err: errors.New("no runtime")},
		}
		n := 0
		p := ProberFunc(func(context.Context) (Result, error) {
			<-time.After(100 * time.Millisecond)
			a := answers[min(n, len(answers)-1)]
			n++
			return a.res, a.err
		})
		c := Container{Ref: ref("a"), Readiness: &Probe{Prober: p, Schedule: Schedule{Period: time.Second}}}
		r.add(c)
		want := ProbeStatus{Kind: Readiness, Value: Failure, Running: true}
		check := func() {
			t.Helper()
			got, ok := r.Status("a")
			if !ok {
				t.Fatal("no status")
			}
			if diff := cmp.Diff(Status{Ref: c.Ref, Values: got.Values, Probes: []ProbeStatus{want}}, got); diff != "" {
				t.Errorf("status after %s (-want +got):\n%s", time.Since(r.began), diff)
			}
			if diff := cmp.Diff([]Status{got}, r.Snapshot()); diff != "" {
				t.Errorf("snapshot (-status +snapshot):\n%s", diff)
			}
		}
		r.runTo(50 * time.Millisecond)
		check()
		r.runTo(500 * time.Millisecond)
		took := 100 * time.Millisecond
		want = ProbeStatus{
			Kind: Readiness, Value: Success, StreakOf: Success, Streak: 1,
			Last:      Last{Outcome: Success, Message: "ok", At: r.began, Duration: took},
			ChangedAt: r.began.Add(took),
			Counts:    Counts{Successful: 1, Busy: took},
		}
		check()
		r.runTo(1500 * time.Millisecond)
		want.StreakOf, want.Streak = Failure, 1
		want.Last = Last{Outcome: Failure, Message: long[:maxKept], At: r.began.Add(time.Second), Duration: took}
		want.Counts = Counts{Successful: 1, Failed: 1, Busy: 2 * took}
		check()
		r.runTo(2500 * time.Millisecond)
		want.Last = Last{Outcome: Unknown, Err: "no runtime", At: r.began.Add(2 * time.Second), Duration: 3 * took}
		want.Counts = Counts{Successful: 1, Failed: 1, Unknown: 1, Busy: 5 * took}
		check()
		if _, ok := r.Status("nobody"); ok {
			t.Error("there is a status of nobody")
		}
	})
}
