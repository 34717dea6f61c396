package proxy

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/ipvs"
)

// listener notes when it is told what.
type listener struct {
	begin time.Time
	lines []string
}

func (l *listener) note(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf("%v: ", time.Since(l.begin))+fmt.Sprintf(format, args...))
}
func (l *listener) Reset(s *proxier.State)      { l.note("reset to %d", len(s.Ports)) }
func (l *listener) Applied(d proxier.Delta)     { l.note("%d changed", len(d.Update)) }
func (*listener) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// An endpoint of UDP may answer for a while in mode ipvs: until then the kernel is not made to
// forget its flows.
func TestFlowsOfGoneEndpointsAreForgottenWhenTheyHaveAnswered(t *testing.T) {
	changes := func(n int) proxier.Delta { return proxier.Delta{Update: make([]*proxier.ServicePort, n)} }
	for _, tt := range []struct {
		mode config.Mode
		want []string
	}{
		{config.NFTables, []string{"0s: reset to 0", "1s: 1 changed", "5s: 2 changed"}},
		{config.IPTables, []string{"0s: reset to 0", "1s: 1 changed", "5s: 2 changed"}},
		{config.IPVS, []string{
			fmt.Sprintf("%v: reset to 0", ipvs.FlowsLeave), fmt.Sprintf("%v: 1 changed", time.Second+ipvs.FlowsLeave),
			fmt.Sprintf("%v: 2 changed", 5*time.Second+ipvs.FlowsLeave),
		}},
	} {
		t.Run(string(tt.mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				heard := &listener{begin: time.Now()}
				told, parts := forgetting(tt.mode, heard)
				done := make(chan error, len(parts))
				for _, p := range parts {
					go func() { done <- p.Run(ctx) }()
				}
				told.Reset(&proxier.State{})
				<-time.After(time.Second)
				told.Applied(changes(1))
				<-time.After(4 * time.Second)
				told.Applied(changes(2))
				<-time.After(time.Minute)
				cancel()
				for range parts {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if diff := cmp.Diff(tt.want, heard.lines); diff != "" {
					t.Errorf("told (-want +got):\n%s", diff)
				}
			})
		})
	}
}
