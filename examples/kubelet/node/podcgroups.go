package node

import (
	"context"
	"time"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// podCgroups are the cgroups of the node's pods, nil where the runtime makes them.
type podCgroups struct{ *cgroups.Tree }

// weighEvery is the time between two settings of what the classes of pods weigh, for the
// case that somebody else has changed it.
const weighEvery = time.Minute

// newPodCgroups returns the cgroups of the pods, nil if they are the business of
// systemd or of the user of a Node.
func newPodCgroups(n *Node, driver string) (*podCgroups, error) {
	if n.cfg.Cgroups != nil || driver == driverSystemd {
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
		Log:    n.log,
	})
	if err != nil {
		return nil, err
	}
	return &podCgroups{tree}, nil
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
	if c == nil {
		return nil
	}
	return c.Setup(ctx)
}

// weigh has the classes weigh what their pods ask for.
func (a *agent) weigh(ctx context.Context) {
	if a.cgroups == nil {
		return
	}
	if err := a.cgroups.SetActive(ctx, a.admissions.active()); err != nil {
		a.log.Warn("weights of the cgroups of pods were not set", "err", err)
	}
}
