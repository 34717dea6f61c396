package proxiertest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/proxiertest"
)

// complaints is a testing.TB that collects errors.
type complaints struct {
	testing.TB
	lines []string
}

func (c *complaints) Helper() {}

func (c *complaints) Errorf(format string, args ...any) {
	c.lines = append(c.lines, fmt.Sprintf(format, args...))
}

func servicePort(name, addr string) *proxier.ServicePort {
	return &proxier.ServicePort{
		Key:       proxier.Key{PortName: proxier.PortName{Namespace: "ns", Name: name, Protocol: proxier.TCP}, Family: proxier.IPv4},
		Frontends: []proxier.Frontend{{Kind: proxier.ClusterIP, Addr: netip.MustParseAddr(addr), Port: 80}},
	}
}

func TestBackendFailsOnMisuse(t *testing.T) {
	a, b := servicePort("a", "10.96.0.1"), servicePort("b", "10.96.0.2")
	update := func(ports ...*proxier.ServicePort) proxier.Delta { return proxier.Delta{Update: ports} }
	tests := []struct {
		name string
		do   func(ctx context.Context, b *proxiertest.Backend)
		want string // empty: no complaint
	}{
		{name: "Apply before Reset", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Apply(ctx, update(a))
		}, want: "Reset must come first"},
		{name: "Apply after an error", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{})
			be.Fail(func(proxiertest.Call) error { return errors.New("no") })
			_ = be.Apply(ctx, update(a))
			be.Fail(nil)
			_ = be.Apply(ctx, update(a))
		}, want: "Reset must come first"},
		{name: "empty delta", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{})
			_ = be.Apply(ctx, proxier.Delta{})
		}, want: "empty"},
		{name: "not sorted", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{b, a}})
		}, want: "not sorted"},
		{name: "a key twice", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{a, a}})
		}, want: "twice"},
		{name: "removed and updated", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{})
			_ = be.Apply(ctx, proxier.Delta{Remove: []proxier.Key{a.Key}, Update: []*proxier.ServicePort{a}})
		}, want: "both removed and updated"},
		{name: "a frontend of two", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{a, servicePort("c", "10.96.0.1")}})
		}, want: "belongs to both"},
		{name: "a frontend that moves", do: func(ctx context.Context, be *proxiertest.Backend) {
			_ = be.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{a}})
			_ = be.Apply(ctx, proxier.Delta{Remove: []proxier.Key{a.Key}, Update: []*proxier.ServicePort{servicePort("c", "10.96.0.1")}})
		}},
		{name: "changed after it was handed over", do: func(ctx context.Context, be *proxiertest.Backend) {
			c := servicePort("c", "10.96.0.3")
			_ = be.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{c}})
			c.Frontends[0].Port = 81
			_ = be.Apply(ctx, update(b))
		}, want: "changed after"},
		{name: "two calls at once", do: func(ctx context.Context, be *proxiertest.Backend) {
			be.Fail(func(c proxiertest.Call) error {
				if c.Op == proxiertest.Reset {
					_ = be.Cleanup(ctx)
				}
				return nil
			})
			_ = be.Reset(ctx, &proxier.State{})
		}, want: "during another call"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &complaints{TB: t}
			tt.do(t.Context(), proxiertest.NewBackend(c))
			got := strings.Join(c.lines, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("it complains %q, want %q", got, tt.want)
			}
		})
	}
}

func TestBackendKeepsState(t *testing.T) {
	a, b := servicePort("a", "10.96.0.1"), servicePort("b", "10.96.0.2")
	be := proxiertest.NewBackend(t)
	ctx := t.Context()
	if err := be.Reset(ctx, &proxier.State{Ports: []*proxier.ServicePort{a}}); err != nil {
		t.Fatal(err)
	}
	if err := be.Apply(ctx, proxier.Delta{Remove: []proxier.Key{a.Key}, Update: []*proxier.ServicePort{b}}); err != nil {
		t.Fatal(err)
	}
	if got := be.State().Ports; len(got) != 1 || got[0] != b {
		t.Errorf("State() = %v, want b alone", got)
	}
	if err := be.Cleanup(ctx); err != nil || len(be.State().Ports) != 0 {
		t.Errorf("after Cleanup, %v, State() = %v", err, be.State().Ports)
	}
	if got := len(be.Calls()); got != 3 {
		t.Errorf("%d calls, want 3", got)
	}
}
