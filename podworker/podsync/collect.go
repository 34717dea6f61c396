package podsync

import (
	"slices"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// collect plans what to remove: of each container name the newest instance and the
// newest dead ones stay, as many as Inputs.KeepDead says, for the last state and its
// log. A sandbox goes when it is not the one to keep and holds no container that stays.
func (p *planner) collect(keep string) {
	for i := range p.seen.Containers {
		if c := &p.seen.Containers[i]; p.superfluous(c) {
			p.out.RemoveContainers = append(p.out.RemoveContainers, dead(c))
		}
	}
	for i := range p.seen.Sandboxes {
		id := p.seen.Sandboxes[i].ID
		if id != keep && !p.holds(id) {
			p.out.RemoveSandboxes = append(p.out.RemoveSandboxes, id)
		}
	}
}

func dead(c *podstatus.Instance) Dead {
	return Dead{Name: c.Name, ID: c.ID, Attempt: uint32(max(c.RestartCount, 0))}
}

func (p *planner) superfluous(c *podstatus.Instance) bool {
	newest := p.seen.Newest(c.Name)
	switch c.State {
	case podstatus.StateRunning, podstatus.StateUnknown:
		return false
	case podstatus.StateCreated:
		return newest != c || c.SandboxID != p.out.SandboxID || p.givenUp(c)
	case podstatus.StateExited:
	}
	return newest != c && p.deadAfter(c) >= max(p.in.KeepDead, 1) && p.in.Now.Sub(c.CreatedAt) >= p.in.DeadAge
}

// givenUp reports whether a created container is being replaced.
func (p *planner) givenUp(c *podstatus.Instance) bool {
	return slices.ContainsFunc(p.out.Start, func(s Start) bool { return s.Name == c.Name && s.ID == "" })
}

// deadAfter counts the dead runs of a container that are newer than one of them.
func (p *planner) deadAfter(old *podstatus.Instance) int {
	n := 0
	for i := range p.seen.Containers {
		c := &p.seen.Containers[i]
		if c == old {
			break
		}
		if c.Name == old.Name && c.State == podstatus.StateExited {
			n++
		}
	}
	return n
}

func (p *planner) holds(sandbox string) bool {
	return slices.ContainsFunc(p.seen.Containers, func(c podstatus.Instance) bool {
		return c.SandboxID == sandbox && !slices.ContainsFunc(p.out.RemoveContainers, func(d Dead) bool { return d.ID == c.ID })
	})
}
