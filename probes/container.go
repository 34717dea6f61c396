package probes

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Ref says which container something is about. Only ID has a meaning to the
// Engine; the rest is for logs, events and metrics.
type Ref struct {
	// ID identifies one life of a container: a restarted container has another one.
	// It is what runs commands in it.
	ID        string
	Name      string
	Namespace string
	Pod       string
	UID       types.UID
}

// Container is a running container with its probes. A nil probe means that the
// container has none of that kind; it then counts as started, alive, or ready as
// soon as it has started.
type Container struct {
	Ref Ref
	// StartedAt is when the container started; initial delays count from here. Zero
	// means now.
	StartedAt time.Time
	Startup   *Probe
	Liveness  *Probe
	Readiness *Probe
	// Seed holds the values from an earlier life of the agent, for a container that
	// was running already then; nil means that the container is new. An Unknown in
	// it stays until a threshold of attempts is reached: what was published about
	// the container then still holds.
	Seed *Values
	// Terminating says that the pod is going down; see Engine.Terminate.
	Terminating bool
}

// probe returns the container's probe of a kind.
func (c *Container) probe(k Kind) *Probe {
	return [kinds]*Probe{Startup: c.Startup, Liveness: c.Liveness, Readiness: c.Readiness}[k]
}

// validate names what is wrong with c.
func (c *Container) validate() error {
	if c.Ref.ID == "" {
		return errors.New("Ref.ID is empty: every container needs one of its own")
	}
	for k := range Kind(kinds) {
		p := c.probe(k)
		if p == nil {
			continue
		}
		if p.Prober == nil {
			return fmt.Errorf("%s.Prober is nil: say what to run", k)
		}
		if err := p.Schedule.validate(k); err != nil {
			return fmt.Errorf("%s.Schedule.%w", k, err)
		}
	}
	return nil
}

// Values are the values of the three probes of a container. Of a probe that the
// container does not have, the value is Success.
type Values struct {
	Startup   Outcome
	Liveness  Outcome
	Readiness Outcome
}

// Started reports whether the container has finished starting.
func (v Values) Started() bool { return v.Startup == Success }

// Ready reports whether the container may get traffic.
func (v Values) Ready() bool { return v.Started() && v.Readiness == Success }

// Restart returns the kind of the probe that asks for the container to be stopped
// and, if the restart policy allows it, started again.
func (v Values) Restart() (Kind, bool) {
	switch {
	case v.Liveness == Failure:
		return Liveness, true
	case v.Startup == Failure:
		return Startup, true
	}
	return 0, false
}

// of returns the value of one kind.
func (v Values) of(k Kind) Outcome {
	return [kinds]Outcome{Startup: v.Startup, Liveness: v.Liveness, Readiness: v.Readiness}[k]
}
