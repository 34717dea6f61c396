package node

import (
	"context"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// podCgroups are the cgroups of the node's pods, nil where the runtime makes them.
type podCgroups struct {
	*cgroups.Tree
	// guest leaves what is common to all pods of the machine to another agent.
	guest bool
	node  *Node
	// changed says that pods may have more, or less, than before.
	changed chan struct{}
}

// newPodCgroups returns the cgroups of the pods, nil if they are the business of the user
// of a Node.
func newPodCgroups(n *Node, driver string) (*podCgroups, error) {
	if n.cfg.Cgroups != nil {
		return nil, nil
	}
	mounts, err := cgroups.Mounted()
	if err != nil {
		return nil, err
	}
	tree, err := cgroups.New(cgroups.Config{
		Mounts: mounts,
		Root:   n.cfg.Kubelet.CgroupRoot,
		Class:  podstatus.QOSClass,
		Rules:  cgroupRules(n.cfg.Kubelet),
		Pinned: n.alignment.pinned,
		Slices: n.slices(driver),
		Log:    n.log,
	})
	if err != nil {
		return nil, err
	}
	return &podCgroups{tree, n.guest, n, make(chan struct{}, 1)}, nil
}

// slices are those of systemd, nil where cgroups are directories.
func (n *Node) slices(driver string) cgroups.Slices {
	switch {
	case driver != driverSystemd:
		return nil
	case n.cfg.Slices != nil:
		return n.cfg.Slices
	}
	return cgroups.NewSystemd(cgroups.SystemdConfig{})
}

// cgroupRules are what the configuration adds to the limits of pods.
func cgroupRules(k *kubeletconfig.KubeletConfiguration) cgroups.Rules {
	r := cgroups.Rules{
		NoCPUQuota:    k.CPUCFSQuota != nil && !*k.CPUCFSQuota,
		ReserveMemory: k.MemoryReservationPolicy == kubeletconfig.TieredReservationMemoryReservationPolicy,
	}
	if k.PodPidsLimit != nil {
		r.PodPids = *k.PodPidsLimit
	}
	if k.CPUCFSQuotaPeriod != nil {
		r.CPUPeriod = k.CPUCFSQuotaPeriod.Duration
	}
	if k.MemoryThrottlingFactor != nil {
		r.Throttling = *k.MemoryThrottlingFactor
	}
	return r
}

// parts are the cgroups as podsync takes them.
func (c *podCgroups) parts() podsync.PodCgroups {
	if c == nil {
		return nil
	}
	return c.Tree
}

// setup makes what is above the cgroups of pods.
func (c *podCgroups) setup(ctx context.Context) error {
	if c == nil || c.guest {
		return nil
	}
	return c.Setup(ctx)
}

// weigh has the classes weigh what their pods ask for.
func (a *agent) weigh(ctx context.Context) {
	if a.cgroups == nil || a.cgroups.guest {
		return
	}
	if err := a.cgroups.SetActive(ctx, a.admissions.active()); err != nil && ctx.Err() == nil {
		a.log.Warn("weights of the cgroups of pods were not set", "err", err)
	}
}

// sweepCgroups removes empty cgroups of pods that nobody knows any more. Those in use
// may be another kubelet's.
func (a *agent) sweepCgroups(ctx context.Context) {
	if a.cgroups == nil || a.cgroups.guest {
		return
	}
	uids, err := a.cgroups.Pods()
	if err != nil {
		a.log.Warn("cgroups of pods that are gone were not searched for", "err", err)
		return
	}
	snap, own := a.snapshot.Load(), a.ownership()
	for _, uid := range uids {
		_, known := a.pool.State(uid)
		if known || a.catalog.wants(uid) || snap.Pods[uid] != nil || a.memory.foreign(uid) && !own.takeOver {
			continue
		}
		if err := a.cgroups.CollectPod(ctx, uid); err != nil {
			a.log.Warn("cgroup of a pod that is gone stays", "uid", string(uid), "err", err)
		}
	}
}
