package podsync_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/probes"
)

// prober is a probe engine whose results the test sets.
type prober struct {
	mu      sync.Mutex
	results map[podstatus.Probe]podstatus.Result
	// dead is a container whose liveness probe fails.
	dead string
}

func (p *prober) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	if kind == podstatus.Liveness && id == p.dead {
		return podstatus.Failure
	}
	return p.results[kind]
}

func (p *prober) kill(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = strings.TrimPrefix(id, "containerd://")
}

func (p *prober) set(kind podstatus.Probe, r podstatus.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.results[kind] = r
}

func probed() *corev1.Pod {
	probe := func() *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	}
	pod := newPod("probed")
	c := &pod.Spec.Containers[0]
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe(), probe(), probe()
	return pod
}

func TestProbesNeedAnEngine(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		a := m.agent(t)
		pod := probed()
		a.add(pod)
		pass(5 * time.Second)
		m.WantChanges(t)
		st := a.status(pod)
		if st.Phase != corev1.PodFailed || st.Reason != "UnsupportedField" || !strings.Contains(st.Message, "spec.containers[0].livenessProbe: no probe engine is attached") {
			t.Errorf("status is %+v, want failed with the field", st)
		}
	})
}

func TestProbesDecideReadinessAndRestart(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		p := &prober{results: map[podstatus.Probe]podstatus.Result{}}
		a := m.agent(t, func(cfg *podsync.Config) { cfg.Prober = p })
		pod := probed()
		a.add(pod)
		pass(2 * time.Second)
		want := func(started, ready bool, restarts int32) {
			t.Helper()
			a.pool.Wake(pod.UID)
			pass(2 * time.Second)
			c := a.status(pod).ContainerStatuses[0]
			if *c.Started != started || c.Ready != ready || c.RestartCount != restarts {
				t.Errorf("started %t, ready %t, %d restarts; want %t, %t, %d", *c.Started, c.Ready, c.RestartCount, started, ready, restarts)
			}
		}
		want(false, false, 0)
		p.set(podstatus.Startup, podstatus.Success)
		want(true, false, 0)
		p.set(podstatus.Readiness, podstatus.Success)
		want(true, true, 0)
		p.set(podstatus.Readiness, podstatus.Undecided)
		p.kill(a.status(pod).ContainerStatuses[0].ContainerID)
		want(true, false, 1)
		if got := a.told("Killing"); !slices.Equal(got, []string{"probed app Normal Killing: Container app failed liveness probe, will be restarted"}) {
			t.Errorf("events: %q", got)
		}
	})
}

func TestReadinessSurvivesAgentRestart(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		p := &prober{results: map[podstatus.Probe]podstatus.Result{podstatus.Startup: podstatus.Success, podstatus.Readiness: podstatus.Success}}
		a := m.agent(t, func(cfg *podsync.Config) { cfg.Prober = p })
		pod := probed()
		a.add(pod)
		pass(5 * time.Second)
		a.stop()
		pod.Status = a.status(pod) // as an API server gives it back
		b := m.agent(t, func(cfg *podsync.Config) { cfg.Prober = &prober{} })
		b.add(pod)
		pass(5 * time.Minute)
		for _, st := range b.statuses[pod.UID] {
			if !st.ContainerStatuses[0].Ready || !*st.ContainerStatuses[0].Started {
				t.Errorf("a status after the restart is not ready: %+v", st.ContainerStatuses[0])
			}
		}
	})
}

// TestProbesAreNumberedAlike has a conversion from one type of kinds to the other be right.
func TestProbesAreNumberedAlike(t *testing.T) {
	for _, kind := range []probes.Kind{probes.Startup, probes.Liveness, probes.Readiness} {
		if got := podstatus.Probe(kind).String(); !strings.EqualFold(got, kind.String()) {
			t.Errorf("%s becomes %s", kind, got)
		}
	}
}
