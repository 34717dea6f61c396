package node

import (
	"context"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"github.com/nodekit-go/nodekit/runtime/server/stats"
)

// newMetricsPages serves /metrics and the pages below it.
func newMetricsPages(n *Node, c *stats.Collector) http.Handler {
	mux := http.NewServeMux()
	own := prometheus.Gatherers{n.cfg.metrics.registry}
	mux.Handle("/metrics", gathered(func(ctx context.Context) prometheus.Gatherer {
		return append(own, exposed(ctx, c.Claims))
	}))
	mux.Handle("/metrics/resource", gathered(func(ctx context.Context) prometheus.Gatherer { return exposed(ctx, c.Resource) }))
	mux.Handle("/metrics/cadvisor", gathered(func(ctx context.Context) prometheus.Gatherer { return exposed(ctx, c.Containers) }))
	mux.Handle("/metrics/probes", gathered(func(context.Context) prometheus.Gatherer { return n.cfg.metrics.probes.registry }))
	health := newHealthMetrics(n)
	mux.Handle("/metrics/slis", gathered(func(context.Context) prometheus.Gatherer { return health }))
	return mux
}

// gathered serves what a Gatherer, made for each request, has. One part that fails does not
// keep back the others.
func gathered(from func(context.Context) prometheus.Gatherer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		promhttp.HandlerFor(from(r.Context()), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}).ServeHTTP(w, r)
	})
}

// exposed has the families of a part gathered by Prometheus. They go around a registry,
// which would check each of thousands of samples that are right already.
func exposed(ctx context.Context, families func(context.Context) []stats.Family) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		list := families(ctx)
		out := make([]*dto.MetricFamily, 0, len(list))
		for i := range list {
			out = append(out, exposedFamily(&list[i]))
		}
		return out, nil
	})
}

// exposedFamily is a family as Prometheus has it. What its samples share is made once.
func exposedFamily(f *stats.Family) *dto.MetricFamily {
	out := &dto.MetricFamily{Name: &f.Name, Help: &f.Help, Type: dto.MetricType_GAUGE.Enum(), Metric: make([]*dto.Metric, len(f.Samples))}
	if f.Kind == stats.Counter {
		out.Type = dto.MetricType_COUNTER.Enum()
	}
	for i := range f.Samples {
		s := &f.Samples[i]
		m := &dto.Metric{Label: make([]*dto.LabelPair, len(f.Labels))}
		for j := range f.Labels {
			m.Label[j] = &dto.LabelPair{Name: &f.Labels[j], Value: &s.Values[j]}
		}
		if f.Kind == stats.Counter {
			m.Counter = &dto.Counter{Value: &s.Value}
		} else {
			m.Gauge = &dto.Gauge{Value: &s.Value}
		}
		if !s.At.IsZero() {
			m.TimestampMs = new(s.At.UnixMilli())
		}
		out.Metric[i] = m
	}
	return out
}
