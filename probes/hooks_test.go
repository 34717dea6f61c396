package probes_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

func TestAttemptEventsAndMetrics(t *testing.T) {
	tests := []struct {
		name    string
		attempt probes.Attempt
		event   probes.Event
		metric  string
		timed   bool
	}{
		{
			name:    "success",
			attempt: probes.Attempt{Result: probes.Result{Outcome: probes.Success, Message: "ok"}},
			metric:  "successful", timed: true,
		},
		{
			name:    "failure",
			attempt: probes.Attempt{Kind: probes.Liveness, Result: probes.Result{Outcome: probes.Failure, Message: "HTTP probe failed with statuscode: 503"}},
			event:   probes.Event{Reason: "Unhealthy", Message: "Liveness probe failed: HTTP probe failed with statuscode: 503"},
			metric:  "failed",
		},
		{
			name:    "warning",
			attempt: probes.Attempt{Kind: probes.Readiness, Result: probes.Result{Outcome: probes.Warning, Message: "Probe terminated redirects, Response body: x"}},
			event:   probes.Event{Reason: "ProbeWarning", Message: "Readiness probe warning: Probe terminated redirects, Response body: x"},
			metric:  "successful", timed: true,
		},
		{
			name:    "error",
			attempt: probes.Attempt{Kind: probes.Readiness, Err: errors.New("no runtime")},
			event:   probes.Event{Reason: "Unhealthy", Message: "Readiness probe errored and resulted in unknown state: no runtime"},
			metric:  "unknown", timed: true,
		},
		{
			name:    "unknown",
			attempt: probes.Attempt{Kind: probes.Startup, Result: probes.Result{Message: "dunno"}},
			event:   probes.Event{Reason: "Unhealthy", Message: "Startup probe returned unknown result: dunno"},
			metric:  "unknown", timed: true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			event, ok := tt.attempt.Event()
			if event != tt.event || ok != (tt.event != probes.Event{}) {
				t.Errorf("event is %+v, %t; want %+v", event, ok, tt.event)
			}
			if got := tt.attempt.MetricResult(); got != tt.metric {
				t.Errorf("MetricResult() = %q, want %q", got, tt.metric)
			}
			if got := tt.attempt.Timed(); got != tt.timed {
				t.Errorf("Timed() = %t, want %t", got, tt.timed)
			}
		})
	}
}

func TestHookThatBlocksDelaysItsProbeOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		e := engine(t, probes.Config{Hooks: probes.Hooks{Attempted: func(a probes.Attempt) {
			if a.Ref.ID == "slow" {
				<-free
			}
		}}})
		slow, other := probestest.NewScript(), probestest.NewScript()
		for id, s := range map[string]*probestest.Script{"slow": slow, "other": other} {
			if err := e.Add(liveness(id, s, probes.Schedule{Period: time.Second})); err != nil {
				t.Fatal(err)
			}
		}
		pass(10*time.Second + time.Millisecond)
		if got := len(other.Calls()); got != 11 {
			t.Errorf("%d attempts at the other probe, want 11", got)
		}
		if got := len(slow.Calls()); got != 1 {
			t.Errorf("%d attempts at the probe of the blocked hook, want 1", got)
		}
		close(free)
		pass(time.Second)
		if got := len(slow.Calls()); got < 2 {
			t.Error("the probe did not go on after its hook")
		}
	})
}

func TestHooksMayCallTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e *probes.Engine
		e = engine(t, probes.Config{Hooks: probes.Hooks{Changed: func(c probes.Change) {
			e.Remove(c.Ref.ID)
		}}})
		if err := e.Add(liveness("c", probestest.NewScript(probestest.Fail("no")), probes.Schedule{FailureThreshold: 1})); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if _, ok := e.Values("c"); ok {
			t.Error("the container is still there")
		}
		if l := e.Load(); l != (probes.Load{}) {
			t.Errorf("load is %+v", l)
		}
	})
}
