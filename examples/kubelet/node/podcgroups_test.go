package node

import (
	"context"
	"testing"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// noSlices makes none.
type noSlices struct{}

func (noSlices) Start(context.Context, string, []cgroups.Property) error { return nil }
func (noSlices) Set(context.Context, string, []cgroups.Property) error   { return nil }
func (noSlices) Stop(context.Context, string) error                      { return nil }

// TestCgroupsAreThoseOfTheDriver: a runtime with the systemd driver needs slices.
func TestCgroupsAreThoseOfTheDriver(t *testing.T) {
	n := &Node{}
	if got := n.slices(driverCgroupfs); got != nil {
		t.Errorf("with the driver cgroupfs there are slices: %T", got)
	}
	if _, ok := n.slices(driverSystemd).(*cgroups.Systemd); !ok {
		t.Errorf("slices of the driver systemd are %T, want systemd's", n.slices(driverSystemd))
	}
	n.cfg.Slices = noSlices{}
	if _, ok := n.slices(driverSystemd).(noSlices); !ok {
		t.Errorf("slices of the driver systemd are %T, want those of the configuration", n.slices(driverSystemd))
	}
}
