package proxier_test

import (
	"fmt"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// BenchmarkTrackerUpdate replaces one of two endpoints of one Service among n.
func BenchmarkTrackerUpdate(b *testing.B) {
	for _, n := range []int{100, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			tr := loadedTracker(n)
			changes := []func(){}
			for _, ip := range []string{"10.244.9.1", "10.244.9.2"} {
				es := sliceOf(n/2, "10.244.0.1", ip)
				changes = append(changes, func() { tr.SetEndpointSlice(es) })
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				changes[i%2]()
				if d := tr.Delta(); len(d.Update) != 1 {
					b.Fatalf("delta has %d updates, want 1", len(d.Update))
				}
			}
		})
	}
}

// BenchmarkTrackerNoChange sets an EndpointSlice of which only metadata changed.
func BenchmarkTrackerNoChange(b *testing.B) {
	tr := loadedTracker(10_000)
	es := sliceOf(5000, "10.244.0.1", "10.244.0.2")
	tr.SetEndpointSlice(es)
	tr.Delta()
	b.ReportAllocs()
	for b.Loop() {
		if tr.SetEndpointSlice(es) {
			b.Fatal("a change of metadata counts as a change")
		}
	}
}

// BenchmarkTrackerLoad takes in 10,000 Services with two endpoints each.
func BenchmarkTrackerLoad(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		loadedTracker(10_000)
	}
}

func loadedTracker(n int) *proxier.Tracker {
	tr := proxier.NewTracker(proxier.TrackerConfig{Node: proxier.Node{Name: "node-a"}})
	for i := range n {
		tr.SetService(clusterService(i))
		tr.SetEndpointSlice(sliceOf(i, "10.244.0.1", "10.244.0.2"))
	}
	tr.State()
	return tr
}
