package node

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/probes"
)

// TestDurationsOfTheNextPodOfAName: durations have no UID, so that the pod that follows has
// those of the one that is forgotten.
func TestDurationsOfTheNextPodOfAName(t *testing.T) {
	m := newProbeMetrics()
	attempt := func(uid types.UID) {
		a := probes.Attempt{Kind: probes.Readiness, Duration: time.Millisecond}
		a.Result.Outcome = probes.Success
		a.Ref.UID, a.Ref.Namespace, a.Ref.Pod, a.Ref.Name = uid, "default", "db-0", "db"
		m.attempted(a)
	}
	durations := func() (n uint64) {
		t.Helper()
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == probes.MetricDuration {
				for _, series := range f.GetMetric() {
					n += series.GetHistogram().GetSampleCount()
				}
			}
		}
		return n
	}
	attempt("1")
	attempt("2")
	m.forgets("1")
	attempt("2")
	if got := durations(); got != 3 {
		t.Errorf("%d durations are counted, want 3", got)
	}
	m.forgets("2")
	if got := durations(); got != 0 {
		t.Errorf("%d durations are counted of a pod that is gone", got)
	}
}
