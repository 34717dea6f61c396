package proxy

import (
	"log/slog"
	"maps"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
)

// What problems are about: the label of the metric and the field in /healthz. The
// events have the reasons beside them.
const (
	aboutHost   = "kernel-parameters"
	aboutRules  = "rules"
	aboutDrift  = "drift-detection"
	aboutConfig = "configuration-file"
	aboutOthers = "other-proxies"
)

// abouts returns all of them.
func abouts() []string { return []string{aboutHost, aboutRules, aboutDrift, aboutConfig, aboutOthers} }

func reasonOf(about string) string {
	return map[string]string{
		aboutHost: "FailedToPrepareHost", aboutRules: "FailedToProgramAll", aboutDrift: "FailedToWatchRules",
		aboutConfig: "InvalidConfiguration", aboutOthers: "FailedToRemoveLeftovers",
	}[about]
}

// problems are what does not work for now though Services do. They show in a metric, in
// /healthz, in the log and, when they appear, in an Event of the Node. It is safe for
// concurrent use.
type problems struct {
	gauge  *prometheus.GaugeVec
	events *events // nil without an API server
	log    *slog.Logger

	mu  sync.Mutex // guards now
	now map[string]string
}

func newProblems(m *metrics, e *events, log *slog.Logger) *problems {
	for _, about := range abouts() {
		m.problems.WithLabelValues(about).Set(0)
	}
	return &problems{gauge: m.problems, events: e, log: log, now: map[string]string{}}
}

// set takes why something does not work; nil means that it works again.
func (p *problems) set(about string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		delete(p.now, about)
		p.gauge.WithLabelValues(about).Set(0)
		return
	}
	if p.now[about] == err.Error() {
		return
	}
	p.now[about] = err.Error()
	p.gauge.WithLabelValues(about).Set(1)
	p.log.Warn("something does not work", "about", about, "err", err)
	p.events.onNode(corev1.EventTypeWarning, reasonOf(about), err.Error())
}

// all returns the problems of now.
func (p *problems) all() map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.now)
}
