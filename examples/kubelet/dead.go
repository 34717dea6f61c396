package main

import (
	"math"
	"time"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// dead are the flags about dead containers. Their names and defaults are the kubelet's.
type dead struct {
	perContainer, all int
	age               time.Duration
}

func (d *dead) add(f *pflag.FlagSet) {
	f.IntVar(&d.perContainer, "maximum-dead-containers-per-container", 1, "`number` of dead runs that are kept of each container, one at least; negative: all")
	f.IntVar(&d.all, "maximum-dead-containers", -1, "`number` of dead containers that are kept of all pods together, as far as nobody needs them; negative: any number")
	f.DurationVar(&d.age, "minimum-container-ttl-duration", 0, "least `age` of a dead run that is removed for being one too many")
}

// limits returns what the flags ask for. A zero there means the default, here it is a
// number.
func (d *dead) limits() podsync.Limits {
	l := podsync.Limits{DeadPerContainer: max(d.perContainer, 1), Dead: d.all, DeadAge: max(d.age, 0)}
	if d.perContainer < 0 {
		l.DeadPerContainer = math.MaxInt32
	}
	switch {
	case d.all < 0:
		l.Dead = 0
	case d.all == 0:
		l.Dead = -1
	}
	return l
}
