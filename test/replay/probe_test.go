package replay_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// probeCommand, with the kind of the probe, is the command of probes: the results are
// those of the story.
const probeCommand = "probe"

// probe waits until the probe of the story finds something.
func (tl *tale) probe(ctx context.Context, id, kind string) runtimetest.ExecResult {
	name, number, started := tl.rec.RunOf(id)
	for _, p := range tl.Probes {
		if p.Container != name || p.Kind != kind {
			continue
		}
		f := p.Runs[min(number, len(p.Runs))-1]
		if f.Never || until(ctx, started.Add(f.After)) != nil {
			<-ctx.Done()
		}
		result, code := "failure", int32(1)
		if f.Success {
			result, code = "success", 0
		}
		if _, again := tl.found.LoadOrStore(id+kind, true); !again {
			tl.rec.Of(id, "probe "+kind+" "+result)
		}
		return runtimetest.ExecResult{Code: code}
	}
	return runtimetest.ExecResult{Code: 1}
}

func probeOf(c *corev1.Container, kind string) *corev1.Probe {
	switch kind {
	case "startup":
		return c.StartupProbe
	case "liveness":
		return c.LivenessProbe
	}
	return c.ReadinessProbe
}

// script has a probe find what the story says, the first time that it looks.
func script(p *corev1.Probe, kind string) {
	p.ProbeHandler = corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{probeCommand, kind}}}
	p.InitialDelaySeconds, p.PeriodSeconds, p.TimeoutSeconds = 0, 1, 3600
	p.FailureThreshold, p.SuccessThreshold = 1, 1
}
