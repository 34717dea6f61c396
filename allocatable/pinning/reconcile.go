package pinning

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// Running is a container that runs.
type Running struct {
	Pod  types.UID
	Name string
	// ID is the runtime's.
	ID string
}

// Reconcile tells running containers which CPUs they have now, through set, unless that
// was told before: those of the shared pool change as others get CPUs to themselves. What
// fails is tried again at the next call. Containers that are not in the list are forgotten.
// With [None] it does nothing.
//
// The lock is not held while set is called.
func (c *CPUs) Reconcile(ctx context.Context, running []Running, set func(ctx context.Context, id string, cpus CPUSet) error) error {
	if c.cfg.Policy == None {
		return nil
	}
	var errs []error
	for _, r := range c.outdated(running) {
		if ctx.Err() != nil {
			break
		}
		cpus, _ := c.Of(r.Pod, r.Name)
		if err := set(ctx, r.ID, cpus); err != nil {
			errs = append(errs, fmt.Errorf("set CPUs %s of container %s of pod %s: %w", cpus, r.Name, r.Pod, err))
			continue
		}
		c.mu.Lock()
		c.applied[r.ID] = cpus
		c.mu.Unlock()
	}
	return errors.Join(errs...)
}

// outdated returns the containers that have not been told their CPUs.
func (c *CPUs) outdated(running []Running) []Running {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Running
	seen := make(map[string]CPUSet, len(running))
	for _, r := range running {
		told, ok := c.applied[r.ID]
		if want, _ := c.ofLocked(r.Pod, r.Name); !ok || !told.Equal(want) {
			out = append(out, r)
		}
		if ok {
			seen[r.ID] = told
		}
	}
	c.applied = seen
	return out
}
