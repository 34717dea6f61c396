package lease_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/lease"
	"github.com/nodekit-go/nodekit/lease/leasetest"
)

// BenchmarkRenewal is one renewal on a server in memory, with its JSON.
func BenchmarkRenewal(b *testing.B) {
	server := leasetest.New()
	renewed := make(chan struct{})
	k, err := lease.New(leasetest.Direct(server).Leases(lease.DefaultNamespace), lease.Config{
		Name: "node-a", Period: time.Nanosecond,
		Hooks: lease.Hooks{Renewed: func(lease.Renewal) { renewed <- struct{}{} }},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = k.Run(ctx) })
	b.ReportAllocs()
	for b.Loop() {
		<-renewed
	}
	stop()
	go func() {
		for range renewed { // the last renewal may be on its way
		}
	}()
	wg.Wait()
	close(renewed)
}

// BenchmarkIdleKeepers tells the memory of a Keeper between two renewals.
func BenchmarkIdleKeepers(b *testing.B) {
	const count = 1000
	client := leasetest.Direct(leasetest.New()).Leases(lease.DefaultNamespace)
	for b.Loop() {
		before := memory()
		ctx, stop := context.WithCancel(b.Context())
		var renewed, ended sync.WaitGroup
		renewed.Add(count)
		for i := range count {
			k, err := lease.New(client, lease.Config{
				Name: fmt.Sprintf("node-%d", i), Hooks: lease.Hooks{Renewed: func(lease.Renewal) { renewed.Done() }},
			})
			if err != nil {
				b.Fatal(err)
			}
			ended.Go(func() { _ = k.Run(ctx) })
		}
		renewed.Wait()
		b.ReportMetric(float64(memory()-before)/count, "B/keeper")
		stop()
		ended.Wait()
	}
}

// memory returns the bytes of live heap and of stacks.
func memory() uint64 {
	for range 4 {
		runtime.GC() // each one shrinks stacks by half
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
