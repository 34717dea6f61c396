package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nodekit-go/nodekit/proxier"
)

// Plan returns in what the kernel differs from s, a line for each, sorted, and changes
// nothing: "-" and what a Reset would take away, "+" and what it would bring. What drains
// does not count, nor do the numbers of marks, nor what Config decides. It lists all that
// there is.
func (b *Backend) Plan(ctx context.Context, s *proxier.State) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	lines, err := b.planLocked(ctx, s)
	if err != nil {
		// Answers may wait in the connection.
		if b.inForce {
			err = b.brokenLocked(err)
		} else {
			_ = b.hangUpLocked()
		}
		return nil, fmt.Errorf("ipvs: plan: %w", privileged(err))
	}
	return lines, nil
}

func (b *Backend) planLocked(ctx context.Context, s *proxier.State) ([]string, error) {
	if err := b.connectLocked(); err != nil {
		return nil, err
	}
	found, err := b.surveyLocked(ctx)
	if err != nil {
		return nil, err
	}
	count := map[string]int{}
	for _, line := range b.desired(s, found) {
		count[line]++
	}
	have, err := b.presentLocked(ctx, found)
	if err != nil {
		return nil, err
	}
	for _, line := range have {
		count[line]--
	}
	var gone, come []string
	for line, n := range count {
		for ; n > 0; n-- {
			come = append(come, "+ "+line)
		}
		for ; n < 0; n++ {
			gone = append(gone, "- "+line)
		}
	}
	slices.Sort(gone)
	slices.Sort(come)
	return append(gone, come...), nil
}

// Lines returns what p needs in the kernel, a line for each virtual server, real server,
// address and element, sorted. addrs are the addresses of the node, but those of the device:
// without any they are Network.NodeAddrs of s. Node ports answer at these as Config says, and
// external addresses among them are not bound. The kernel is not asked: it is for explanations.
func (b *Backend) Lines(s *proxier.State, p *proxier.ServicePort, addrs ...netip.Addr) []string {
	if len(addrs) == 0 {
		addrs = s.Network.NodeAddrs
	}
	found := survey{device: deviceState{elsewhere: addrs}}
	return b.desired(&proxier.State{Ports: []*proxier.ServicePort{p}, Network: s.Network}, found)
}

// desired returns the lines of a State as a process would program it that has asked the
// kernel for nothing but its addresses.
func (b *Backend) desired(s *proxier.State, found survey) []string {
	l, c, at := newLedger(), newChanges(), b.surroundings(s.Network, found.device)
	m := newMarks(b.cfg.Marks)
	for _, p := range s.Ports {
		admitted := admit(p, b.cfg.Families, s.Network.NodeAddrs, func(Problem) {})
		if admitted == nil {
			continue
		}
		scheduler := admitted.Balance.Scheduler
		if scheduler == "" || checkScheduler(scheduler) != nil || b.lacks(scheduler) {
			scheduler = b.cfg.Scheduler
		}
		mark := uint32(0)
		if usesShortcut(admitted) {
			mark, _ = m.get(p.Key)
		}
		l.replace(c, p.Key, p, render(admitted, at, scheduler, mark))
	}
	var out []string
	for k, v := range c.servers {
		if v != nil {
			out = append(out, k.lines(v.settings, v.targets)...)
		}
	}
	for e := range l.counts {
		out = append(out, e.line(b.cfg.Device)...)
	}
	slices.Sort(out)
	return out
}

// lacks reports whether the kernel is known not to have a scheduler.
func (b *Backend) lacks(scheduler string) bool {
	has, known := b.state.schedulers[scheduler]
	return known && !has
}

// presentLocked returns the lines of what the kernel has.
func (b *Backend) presentLocked(ctx context.Context, found survey) ([]string, error) {
	var out []string
	for _, s := range found.servers {
		if !b.owns(s.key, found) {
			continue
		}
		listed, err := b.kernel.ipvs.targets(ctx, s.key)
		if err != nil {
			return nil, err
		}
		var targets []target
		for _, t := range listed {
			if t.weight > 0 {
				targets = append(targets, t.target)
			}
		}
		slices.SortFunc(targets, func(a, b target) int { return a.at.Compare(b.at) })
		out = append(out, s.key.lines(s.settings, targets)...)
	}
	for o := range objectCount {
		elements, err := b.kernel.rules.list(ctx, o)
		if err != nil {
			return nil, err
		}
		for _, e := range elements {
			if e.in != serviceIPs || has(found.device.bound, e.at.Addr()) {
				out = append(out, e.line(b.cfg.Device)...)
			}
		}
	}
	return out, nil
}

// lines prints a virtual server as ipvsadm does, roughly, but for the number of its mark.
func (k serverKey) lines(s settings, targets []target) []string {
	name := k.String()
	if k.mark != 0 {
		name = "mark of a Service " + k.family.String()
		if len(targets) > 0 {
			name += " with " + targets[0].at.String()
		}
	}
	line := fmt.Sprintf("virtual server %s %s", name, s.scheduler)
	if s.flags&flagPersistent != 0 {
		line += fmt.Sprintf(" persistent %d", s.timeout)
	}
	out := []string{line}
	for _, t := range targets {
		out = append(out, fmt.Sprintf("real server %s weight %d of %s", t.at, t.weight, name))
	}
	return out
}

// line prints an element, but for the number of a mark, and the address that it stands for.
func (e element) line(device string) []string {
	e.mark = 0
	s, _, _ := strings.Cut(e.String(), " : ")
	out := []string{"element " + strings.TrimSuffix(s, " }") + " }"}
	if e.in == serviceIPs {
		out = append(out, fmt.Sprintf("address %s of %s", e.at.Addr(), device))
	}
	return out
}
