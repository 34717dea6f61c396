package conntrack

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

// Endpoints of some backends may answer for a while after they are gone: until then the kernel
// is not made to forget their flows, and a change in that time does not shorten it.
func TestFlowsAreForgottenAfterADelay(t *testing.T) {
	for _, delay := range []time.Duration{0, 3 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, err := New(Config{Delay: delay})
				if err != nil {
					t.Fatal(err)
				}
				begin, at := time.Now(), []time.Duration(nil)
				c.find = func(_ context.Context, f proxier.Family, _ map[frontend]bool) (seen, deleted int, err error) {
					if f == proxier.IPv4 {
						at = append(at, time.Since(begin))
					}
					return 0, 0, nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- c.Run(ctx) }()
				port := func(addr int) *proxier.ServicePort {
					return &proxier.ServicePort{
						Key:       proxier.Key{PortName: proxier.PortName{Namespace: "default", Name: "dns", Protocol: proxier.UDP}, Family: proxier.IPv4},
						Frontends: []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: addrOf(addr), Port: 53}},
					}
				}
				c.Reset(&proxier.State{})
				<-time.After(time.Second)
				c.Applied(proxier.Delta{Update: []*proxier.ServicePort{port(1)}})
				<-time.After(4 * time.Second)
				c.Applied(proxier.Delta{Remove: []proxier.Key{port(1).Key}})
				<-time.After(time.Minute)
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				want := []time.Duration{delay, time.Second + delay, 5*time.Second + delay}
				if diff := cmp.Diff(want, at); diff != "" {
					t.Errorf("it searched after (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestNegativeDelay(t *testing.T) {
	if _, err := New(Config{Delay: -time.Second}); err == nil || !strings.Contains(err.Error(), "Delay is -1s") {
		t.Errorf("error is %v, want one that names Delay", err)
	}
}
