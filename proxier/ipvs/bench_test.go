package ipvs

import (
	"fmt"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// BenchmarkEndpointReplaced is the Backend's own part of a change, without a kernel: it is
// the same whatever the number of Services.
func BenchmarkEndpointReplaced(b *testing.B) {
	for _, services := range []int{1000, 10000} {
		b.Run(fmt.Sprintf("%d Services", services), func(b *testing.B) {
			k := newFakeKernel(b)
			be := k.backend(Config{})
			var ports []*proxier.ServicePort
			for i := range services {
				ports = append(ports, portOf4(fmt.Sprintf("s%d", i), proxier.UDP,
					at(proxier.ClusterIP, fmt.Sprintf("10.%d.%d.%d", 100+i/65025, i/255%255, 1+i%255), 80), to("10.244.1.21:8080", "10.244.1.22:8080")))
			}
			if err := be.Reset(b.Context(), stateOf(ports...)); err != nil {
				b.Fatal(err)
			}
			one, two := *ports[services/2], *ports[services/2]
			one.Cluster, two.Cluster = endpoints("10.244.1.21:8080", "10.244.1.23:8080"), endpoints("10.244.1.21:8080", "10.244.1.24:8080")
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				p := &one
				if n%2 == 1 {
					p = &two
				}
				k.ops = k.ops[:0]
				if err := be.Apply(b.Context(), proxier.Delta{Update: []*proxier.ServicePort{p}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
