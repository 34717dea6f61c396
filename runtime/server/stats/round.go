package stats

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// round is what was read of groups at one time. It is not changed.
type round struct {
	at     time.Time
	node   *reading
	system []systemReading
	list   []Pod
	pods   []podReading // in the order of list
	// groups has all readings by group, or by ID where the runtime told.
	groups map[string]*reading
}

// reading is what a group used, and how much CPU per second since the reading before.
type reading struct {
	cgroupstat.Usage
	group string
	// nanoCores is known if rated.
	nanoCores uint64
	rated     bool
	// pressure is what the runtime told of; nil: ask the group.
	pressure *cgroupstat.Pressure
}

// systemReading is what the group of daemons used, which is there.
type systemReading struct {
	System
	usage *reading
}

// podReading is what a pod used.
type podReading struct {
	Pod
	// usage is nil if its group is not there.
	usage *reading
	// sandbox is the group of the sandbox, empty if it is not there.
	sandbox    string
	containers []*reading // nil where nothing is known
}

// top is the group of all processes.
const top = "/"

// take returns what was read not longer ago than may be, reading if need be; nil if ctx
// ends first and nothing was.
func (c *Collector) take(ctx context.Context) *round {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return c.usages.Load()
	}
	defer func() { <-c.turn }()
	last := c.usages.Load()
	if last != nil && time.Since(last.at) < c.cfg.Ages.Usage {
		return last
	}
	next := c.read(ctx, last)
	c.usages.Store(next)
	return next
}

// read reads the groups of the node and of all pods. It is called in turn.
func (c *Collector) read(ctx context.Context, last *round) *round {
	r := &round{at: time.Now(), groups: map[string]*reading{}}
	r.node = c.readGroup(r, last, top)
	for _, s := range c.cfg.System() {
		if u := c.readGroup(r, last, s.Group); u != nil {
			r.system = append(r.system, systemReading{s, u})
		}
	}
	places := make(map[string]string, len(c.places))
	unread := false
	r.list = c.cfg.Pods()
	for _, p := range r.list {
		c.findGroups(&p, places)
		pod := podReading{Pod: p, containers: make([]*reading, len(p.Containers)), sandbox: places[p.Sandbox]}
		if p.Group != "" {
			pod.usage = c.readGroup(r, last, p.Group)
		}
		for i := range p.Containers {
			if group := places[p.Containers[i].ID]; group != "" {
				pod.containers[i] = c.readGroup(r, last, group)
			}
			unread = unread || pod.containers[i] == nil
		}
		r.pods = append(r.pods, pod)
	}
	c.places = places
	if unread {
		c.readFromRuntime(ctx, r, last)
	}
	return r
}

// findGroups finds the groups of the sandbox and the containers of a pod: they are named
// after the ID, in ways that differ by runtime and cgroup driver.
func (c *Collector) findGroups(p *Pod, places map[string]string) {
	if p.Group == "" || c.cfg.Groups == nil {
		return
	}
	ids := make([]string, 0, len(p.Containers)+1)
	if p.Sandbox != "" {
		ids = append(ids, p.Sandbox)
	}
	for i := range p.Containers {
		ids = append(ids, p.Containers[i].ID)
	}
	var groups []string
	listed := false
	for _, id := range ids {
		if known, ok := c.places[id]; ok {
			places[id] = known
			continue
		}
		if !listed {
			groups, listed = c.children(p.Group), true
		}
		for _, g := range groups {
			if isGroupOf(path.Base(g), id) {
				places[id] = g
				break
			}
		}
	}
}

// monitorSuffix ends what CRI-O puts before the ID in the name of the group of a container's
// monitor, conmon: crio-conmon-ID. With cgroupfs, and with conmon_cgroup = "pod", that is
// beside the container's group, crio-ID (github.com/cri-o/cri-o, internal/config/cgmgr).
const monitorSuffix = "conmon-"

// isGroupOf reports whether the last part of a group's name is that of the container or
// sandbox with an ID.
func isGroupOf(base, id string) bool {
	before, _, ok := strings.Cut(base, id)
	return ok && id != "" && !strings.HasSuffix(before, monitorSuffix)
}

func (c *Collector) children(group string) []string {
	groups, err := c.cfg.Groups.Children(group)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("control groups of a pod could not be listed", "group", group, "err", err)
	}
	return groups
}

// readGroup reads a group; nil if it is not there.
func (c *Collector) readGroup(r, last *round, group string) *reading {
	if c.cfg.Groups == nil {
		return nil
	}
	u, err := c.cfg.Groups.Usage(group)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.cfg.Log.Warn("control group could not be read", "group", group, "err", err)
		}
		return nil
	}
	return r.add(&reading{Usage: u, group: group}, last, group)
}

// add takes a reading, with its rate.
func (r *round) add(now *reading, last *round, name string) *reading {
	r.groups[name] = now
	if last == nil || now.rated {
		return now
	}
	before := last.groups[name]
	if before == nil || now.CPU < before.CPU {
		return now
	}
	passed := now.Time.Sub(before.Time)
	switch {
	case passed <= 0 && before.rated: // the runtime has said nothing new
		now.nanoCores, now.rated = before.nanoCores, true
	case passed > 0 && passed <= maxRateWindow:
		now.nanoCores = uint64(float64(now.CPU-before.CPU) / float64(passed) * float64(time.Second))
		now.rated = true
	}
	return now
}

// readFromRuntime fills in the containers whose groups are not there.
func (c *Collector) readFromRuntime(ctx context.Context, r, last *round) {
	c.askRuntime() //nolint:contextcheck // the question may outlive the request
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Ages.Patience)
	defer cancel()
	told, _ := c.runtime.get(ctx)
	for i := range r.pods {
		for j := range r.pods[i].Containers {
			id := r.pods[i].Containers[j].ID
			if s := told.containers[id]; r.pods[i].containers[j] == nil && s != nil {
				r.pods[i].containers[j] = r.add(readingOf(s), last, id)
			}
		}
	}
}

// readingOf is what the runtime told of a container. What it did not is 0.
func readingOf(s *runtimeapi.ContainerStats) *reading {
	cpu, memory, swap := s.GetCpu(), s.GetMemory(), s.GetSwap()
	u := &reading{nanoCores: cpu.GetUsageNanoCores().GetValue(), rated: cpu.GetUsageNanoCores() != nil}
	u.Time = time.Unix(0, max(cpu.GetTimestamp(), memory.GetTimestamp()))
	if cpu == nil && memory == nil {
		u.Time = time.Now()
	}
	u.CPU = time.Duration(min(cpu.GetUsageCoreNanoSeconds().GetValue(), cgroupstat.Unlimited)) //nolint:gosec // bounded
	u.Memory = cgroupstat.Memory{
		Usage: memory.GetUsageBytes().GetValue(), WorkingSet: memory.GetWorkingSetBytes().GetValue(), RSS: memory.GetRssBytes().GetValue(),
		Faults: memory.GetPageFaults().GetValue(), MajorFaults: memory.GetMajorPageFaults().GetValue(), Limit: cgroupstat.Unlimited,
	}
	if a := memory.GetAvailableBytes(); a != nil {
		u.Memory.Limit = u.Memory.WorkingSet + a.GetValue()
	}
	u.Swap = cgroupstat.Swap{Usage: swap.GetSwapUsageBytes().GetValue(), Limit: cgroupstat.Unlimited}
	if a := swap.GetSwapAvailableBytes(); a != nil {
		u.Swap.Limit = u.Swap.Usage + a.GetValue()
	}
	u.pressure = &cgroupstat.Pressure{CPU: stallOf(cpu.GetPsi()), Memory: stallOf(memory.GetPsi()), IO: stallOf(s.GetIo().GetPsi())}
	return u
}

func stallOf(p *runtimeapi.PsiStats) *cgroupstat.Stall {
	if p == nil {
		return nil
	}
	waiting := func(d *runtimeapi.PsiData) cgroupstat.Waiting {
		return cgroupstat.Waiting{
			Total: time.Duration(min(d.GetTotal(), cgroupstat.Unlimited)), //nolint:gosec // bounded
			Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300(),
		}
	}
	return &cgroupstat.Stall{Some: waiting(p.GetSome()), Full: waiting(p.GetFull())}
}

// pressureOf is how much a group waits.
func (c *Collector) pressureOf(u *reading) cgroupstat.Pressure {
	if u.pressure != nil {
		return *u.pressure
	}
	p, err := c.cfg.Groups.Pressure(u.group)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.cfg.Log.Warn("pressure of a control group could not be read", "group", u.group, "err", err)
	}
	return p
}
