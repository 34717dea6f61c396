package stats

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// detailRound is all that was read of groups at one time.
type detailRound struct {
	at       time.Time
	subjects []subject
}

// subject is something with a control group: the node, a class of pods, a pod, its sandbox, a
// container.
type subject struct {
	// id is the group, name the ID of a container or sandbox.
	id, name, image           string
	pod, namespace, container string
	created                   time.Time
	detail                    cgroupstat.Detail
	pressure                  cgroupstat.Pressure
	// links are there for the node and for sandboxes.
	links []link
	// layer is there for containers, and for the node.
	layer *layer
	// leaf: it has no groups below it.
	leaf bool
}

// layer is what is taken of a file system.
type layer struct {
	point string
	taken
	disk fileSystem
}

// labels are the values of containerLabels, and more.
func (s *subject) labels(more ...string) []string {
	return append([]string{s.container, s.id, s.image, s.name, s.namespace, s.pod}, more...)
}

// containerLabels are those that kubelets give to what they tell of control groups.
func containerLabels(more ...string) []string {
	return append([]string{labelContainer, "id", "image", "name", labelNamespace, labelPod}, more...)
}

// Containers returns what dashboards show of the node, of pods and of containers, as kubelets
// serve it on /metrics/cadvisor: usage, limits, throttling, disks, network, pressure and what
// the machine has.
func (c *Collector) Containers(ctx context.Context) []Family {
	c.askRuntime() //nolint:contextcheck // the question may outlive the request
	r := c.take(ctx)
	t := newContainerTable()
	failed := 1.0
	if r != nil && c.cfg.Groups != nil {
		failed = 0
		wait, cancel := context.WithTimeout(ctx, c.cfg.Ages.Patience)
		told, _ := c.runtime.get(wait)
		cancel()
		for _, s := range c.detail(ctx, r, &told).subjects {
			t.add(&s)
		}
	}
	t.errors.add(failed, time.Time{})
	return append(t.all(), machineFamilies(c.cfg.Machine())...)
}

// detail returns all that was read of groups, not longer ago than may be.
func (c *Collector) detail(ctx context.Context, r *round, told *runtimeAnswer) *detailRound {
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return &detailRound{}
	}
	defer func() { <-c.turn }()
	if last := c.details.Load(); last != nil && time.Since(last.at) < c.cfg.Ages.Usage {
		return last
	}
	d := &detailRound{at: time.Now()}
	d.read(c, subject{id: top})
	if len(d.subjects) > 0 {
		d.subjects[0].links, _ = ownLinks() // without, there are none to tell of
		if disk := c.measure(c.cfg.Disk); disk.known {
			d.subjects[0].layer = &layer{point: c.cfg.Disk, taken: taken{disk.usedBytes, disk.usedInodes}, disk: disk}
		}
	}
	seen := map[string]bool{top: true}
	for _, s := range r.system {
		d.readOnce(c, s.Group, seen)
	}
	for i := range r.pods {
		d.readPod(c, &r.pods[i], told, seen)
	}
	c.details.Store(d)
	return d
}

// readPod reads the groups of a pod and of what it has, and those above.
func (d *detailRound) readPod(c *Collector, p *podReading, told *runtimeAnswer, seen map[string]bool) {
	if p.Group == "" {
		return
	}
	for above := path.Dir(p.Group); above != top && above != "."; above = path.Dir(above) {
		d.readOnce(c, above, seen)
	}
	of := subject{pod: p.Name, namespace: p.Namespace}
	pod := of
	pod.id, pod.created = p.Group, p.Created
	d.read(c, pod)
	if p.sandbox != "" {
		sandbox := of
		sandbox.id, sandbox.name, sandbox.image, sandbox.created, sandbox.leaf = p.sandbox, p.Sandbox, p.SandboxImage, p.Created, true
		sandbox.links = c.links(p)
		d.read(c, sandbox)
	}
	for i, u := range p.containers {
		if u == nil || u.group == "" {
			continue
		}
		ct := &p.Containers[i]
		s := of
		s.id, s.name, s.image, s.container, s.created, s.leaf = u.group, ct.ID, ct.Image, ct.Name, ct.Created, true
		if l := told.containers[ct.ID].GetWritableLayer(); l != nil {
			point := l.GetFsId().GetMountpoint()
			s.layer = &layer{point: point, taken: taken{l.GetUsedBytes().GetValue(), l.GetInodesUsed().GetValue()}, disk: told.disks[point]}
		}
		d.read(c, s)
	}
}

// readOnce reads a group that has no names but its own.
func (d *detailRound) readOnce(c *Collector, group string, seen map[string]bool) {
	if !seen[group] {
		seen[group] = true
		d.read(c, subject{id: group})
	}
}

// read reads the group of a subject, and leaves it out if it is gone.
func (d *detailRound) read(c *Collector, s subject) {
	var err error
	if s.detail, err = c.cfg.Groups.Detail(s.id); err == nil {
		s.pressure, err = c.cfg.Groups.Pressure(s.id)
	}
	switch {
	case err == nil:
		d.subjects = append(d.subjects, s)
	case !errors.Is(err, fs.ErrNotExist):
		c.cfg.Log.Warn("control group could not be read", "group", s.id, "err", err)
	}
}
