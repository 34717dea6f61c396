package podsync

import (
	"fmt"
	"slices"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// initialise plans for the init containers and reports whether the pod is initialised,
// so that its regular containers may run.
//
// Only runs in the sandbox that is kept count. The last init container that has one
// says how far the pod is: those before it have had their turn, whether or not the
// runtime still has a record of them, and only the sidecars among them are looked
// after.
func (p *planner) initialise() bool {
	inits := p.pod.Spec.InitContainers
	if len(inits) == 0 {
		return true
	}
	s := initStep{planner: p, done: p.hasStarted()}
	s.passed = s.done
	for i := len(inits) - 1; i >= 0 && !s.hopeless; i-- {
		s.at(i)
	}
	if s.hopeless {
		p.out.KillPod = true
		p.out.Start, p.out.Stop, p.out.Wait = nil, nil, nil
		return false
	}
	if !s.passed {
		s.begin = append(s.begin, 0)
	}
	slices.Sort(s.begin)
	for _, i := range s.begin {
		p.begin(&inits[i], p.lastRun(inits[i].Name))
	}
	return s.done
}

// hasStarted reports whether a regular container was started in the sandbox that is
// kept. One that was only created, as a power cut may leave it, proves nothing.
func (p *planner) hasStarted() bool {
	for i := range p.pod.Spec.Containers {
		if run := p.active(p.pod.Spec.Containers[i].Name); run != nil && run.State != podstatus.StateCreated {
			return true
		}
	}
	return false
}

// lastRun returns the run a new one follows: of the sandbox that is kept, or else the
// newest.
func (p *planner) lastRun(name string) *podstatus.Instance {
	if run := p.active(name); run != nil {
		return run
	}
	return p.seen.Newest(name)
}

// initStep is the walk over the init containers, from the last to the first.
type initStep struct {
	*planner
	// begin are the init containers to start, by index.
	begin []int
	// passed is true behind the container that says how far the pod is.
	passed bool
	// done is true once the pod is initialised, hopeless when it never will be.
	done, hopeless bool
}

func (s *initStep) at(i int) {
	c := &s.pod.Spec.InitContainers[i]
	run := s.active(c.Name)
	sidecar := podstatus.IsSidecar(c)
	if run == nil {
		if s.passed && sidecar { // its record was lost
			s.begin = append(s.begin, i)
		}
		return
	}
	if s.passed && !sidecar {
		return
	}
	switch run.State {
	case podstatus.StateCreated:
		s.begin = append(s.begin, i)
	case podstatus.StateRunning:
		if sidecar {
			s.sidecar(i, run)
		} else {
			s.resize(c, run)
		}
	case podstatus.StateExited:
		s.ended(i, run)
	case podstatus.StateUnknown:
		s.unknown(i, run)
	}
	s.passed = true
}

// ended plans for an init container that has exited.
func (s *initStep) ended(i int, run *podstatus.Instance) {
	c := &s.pod.Spec.InitContainers[i]
	switch {
	case podstatus.IsSidecar(c):
		s.begin = append(s.begin, i)
	case succeeded(run):
		s.next(i)
	case podstatus.RestartsContainer(s.pod, c, run.ExitCode):
		s.begin = append(s.begin, i)
	default:
		s.hopeless = true
	}
}

func (s *initStep) unknown(i int, run *podstatus.Instance) {
	c := &s.pod.Spec.InitContainers[i]
	if !podstatus.IsSidecar(c) && !podstatus.RestartsAfterKill(s.pod, c) {
		s.hopeless = true
		return
	}
	s.stop(run, "Init container is in \"unknown\" state, try killing it before restart")
	s.begin = append(s.begin, i)
}

// next goes on after an init container that has done its part.
func (s *initStep) next(i int) {
	switch {
	case i == len(s.pod.Spec.InitContainers)-1:
		s.done = true
	case !s.passed:
		s.begin = append(s.begin, i+1)
	}
}

// sidecar plans for a sidecar that runs. Its startup probe has to pass before the next
// container may start; its liveness does not matter for that.
func (s *initStep) sidecar(i int, run *podstatus.Instance) {
	c := &s.pod.Spec.InitContainers[i]
	if c.StartupProbe != nil && s.probe(run, podstatus.Startup) != podstatus.Success {
		s.failed(c, run, podstatus.Startup)
		return
	}
	s.next(i)
	switch {
	case run.Hash != "" && run.Hash != podspec.ContainerHash(c):
		s.stop(run, fmt.Sprintf("Init container %s definition changed", c.Name))
		s.begin = append(s.begin, i)
	case s.failed(c, run, podstatus.Liveness):
	default:
		s.resize(c, run)
	}
}

// restartAll plans the restart of every container when the end of one asks for it: all
// are stopped at once and removed, their logs stay, and the pod starts over in its
// sandbox. The one that asked for it goes last, so that the next process knows of it.
func (p *planner) restartAll() bool {
	if p.pod.DeletionTimestamp != nil || !slices.ContainsFunc(p.seen.Containers, p.asksForAll) {
		return false
	}
	p.out.RestartAll = true
	var regular, inits, asked []Dead
	for i := range p.seen.Containers {
		run := &p.seen.Containers[i]
		kind := kindOf(p.pod, run.Name)
		if kind == Ephemeral {
			continue
		}
		if run.State == podstatus.StateRunning || run.State == podstatus.StateUnknown {
			p.out.Stop = append(p.out.Stop, Stop{Name: run.Name, ID: run.ID, AtOnce: true, Message: "Stopping container " + run.Name + ", all containers restart"})
		}
		d := dead(run)
		d.KeepLogs = true
		switch {
		case p.asksForAll(*run):
			_, d.Backoff = p.backoff.next(run)
			asked = append(asked, d)
		case kind == Regular:
			regular = append(regular, d)
		default:
			inits = append(inits, d)
		}
	}
	p.out.RemoveContainers = slices.Concat(regular, inits, asked)
	return true
}

// asksForAll reports whether a run has ended so that all containers restart, and its
// back-off is over.
func (p *planner) asksForAll(run podstatus.Instance) bool {
	if run.State != podstatus.StateExited || run.SandboxID != p.out.SandboxID {
		return false
	}
	c := container(p.pod, run.Name)
	if c == nil || !podstatus.RestartsAll(c, run.ExitCode) || p.seen.Newest(run.Name).ID != run.ID {
		return false
	}
	wait, _ := p.backoff.next(&run)
	_, over := p.due(run.FinishedAt, wait)
	return over
}
