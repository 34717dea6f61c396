package podsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Config is how a [Syncer] works. Only Node.Instance is required.
type Config struct {
	// Node is what the node contributes to the configurations of its pods. What of it
	// changes while the agent runs is for Parts.Facts.
	Node podspec.Node
	// RuntimeName goes before container ids in statuses, as in "containerd://0123";
	// empty: ids stand alone.
	RuntimeName string
	// LogLinks is the directory of links to the logs of running containers, which
	// log collectors read (the kubelet's is /var/log/containers); empty: no links.
	LogLinks string
	// MaxBackoff is the longest crash back-off; 0: 5 minutes, the largest value.
	MaxBackoff time.Duration
	// Limits bound what the node does and keeps.
	Limits Limits
	// TakeOver allows to stop and to remove what another agent made although no
	// source names its pod.
	TakeOver bool
	// Can is what the rest of the agent does for pods. What a Syncer does itself, and
	// with its Parts, is known without. Fields that need anything else refuse the pod.
	Can podspec.Ability
	// Prober has the results of probes, as a probes.Engine finds them; the README shows how
	// the two are connected. With nil, pods with probes are refused.
	Prober podstatus.Prober
	// Parts are those who do what a Syncer does not do by itself.
	Parts Parts
	// Cgroups removes the cgroup of a pod that has ended, unless Parts.PodCgroups does.
	// nil: it stays. A runtime makes it by the way, as the parent of those of containers,
	// and with the cgroupfs driver removes these alone, so that an empty directory stays
	// of each pod that ever ran here. See [CgroupDirs].
	Cgroups Cgroups
	// OnStatus gets each new status of a pod, OnEvent what users want to know. They
	// are called by many goroutines and must not block; nil: nobody listens.
	OnStatus func(pod *corev1.Pod, status corev1.PodStatus)
	OnEvent  func(pod *corev1.Pod, event Event)
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

// Limits bound what a Syncer does and keeps. The zero value has the defaults.
type Limits struct {
	// Starts is how many pods are being started at the same time, critical ones first,
	// then those that have waited longest, so that of many pods the first are ready
	// long before the last; 0: two per CPU and at least four. A start that takes over
	// three seconds, as one that pulls an image, makes way for the next.
	Starts int
	// DeadPerContainer is how many dead runs of each container are kept for their logs;
	// 0: one, as in the kubelet.
	DeadPerContainer int
	// Dead is how many dead containers are kept of all pods together, as far as
	// [Syncer.Thin] may remove them; 0: no limit, negative: none.
	Dead int
	// DeadAge is how old a run is before it is removed for being one too many; 0: any.
	DeadAge time.Duration
}

// Parts are those who do what a Syncer does not do by itself. All may be nil.
type Parts struct {
	// Images has the images of containers on the node, and of volumes if it also has the
	// method ForVolume of runtime/images.Manager. nil: they are pulled through the
	// runtime without credentials, with back-off and events.
	Images Images
	// PodCgroups makes and removes the cgroups of pods. nil: the runtime makes them, and
	// Config.Cgroups removes them.
	PodCgroups PodCgroups
	// Volumes sets up the volumes of pods. nil: pods with volumes other than images are
	// refused.
	Volumes Volumes
	// Mounts binds parts of volumes for sub-paths. nil: pods with sub-paths are refused.
	Mounts Mounts
	// Resizer is asked before the resources of a running pod change. nil: every change
	// is accepted.
	Resizer Resizer
	// Grant returns what a pod is given for its life, such as the handler of its
	// runtime class; it returns the same each time. nil: nothing.
	Grant func(ctx context.Context, pod *corev1.Pod) (podspec.Grant, error)
	// Extras has what single containers are given of the node, such as devices, which
	// need the ability [podspec.Devices], too. nil: nothing.
	Extras Extras
	// Health returns how the things are that a container was given of the node, for
	// status.containerStatuses[].allocatedResourcesStatus. nil: nobody says.
	Health func(uid types.UID, container string) []corev1.ResourceStatus
	// References returns what the variables of a pod refer to. nil: nothing.
	References func(ctx context.Context, pod *corev1.Pod) podspec.References
	// HTTP sends the requests of hooks. nil: a client that trusts every certificate.
	HTTP Doer
	// Reach decides which addresses the host that an HTTP hook names may lead to, after it
	// has been resolved; the error says why not. Such requests are not sent by HTTP then.
	// The pod's own address is always reached. nil: every one may be.
	Reach func(netip.Addr) error
	// Facts has what of the node changes while the agent runs. It is asked whenever something
	// of it is needed, at least at each Sync, by many goroutines, and answers from memory as
	// a rule. nil: nothing changes, Config.Node has it.
	Facts func() Facts
	// Acknowledged reports whether the final status of a pod is where it has to be, so
	// that the last traces of its containers may go. nil: always.
	Acknowledged func(uid types.UID) bool
	// Listed returns what the runtime last listed of a pod, so that a Sync of a pod about
	// which nothing has changed asks the runtime nothing. It must not answer after a hint,
	// such as an event of the runtime, that is newer than the lists. nil: every Sync asks.
	Listed func(uid types.UID) (Listed, bool)
}

// Facts are what of a node changes while its agent runs, as with a new lease of an address,
// in place of the fields of these names of [podspec.Node].
type Facts struct {
	// IPs are the addresses of the node, the primary one first. They become those of its
	// pods at their next Sync.
	IPs []string
	// Hosts is the content of the node's /etc/hosts, for containers that start.
	Hosts []byte
	// DNS is how pods resolve names whose sandbox is made.
	DNS podspec.DNS
}

// node is the node as it is now. It is only to be read.
func (s *Syncer) node() *podspec.Node {
	if s.cfg.Parts.Facts == nil {
		return &s.cfg.Node
	}
	node, now := s.cfg.Node, s.cfg.Parts.Facts()
	node.IPs, node.Hosts, node.DNS = now.IPs, now.Hosts, now.DNS
	return &node
}

func (c *Config) validate() error {
	switch {
	case c.Node.Instance == "":
		return errors.New("Config.Node.Instance is empty, want the id of this agent")
	case c.Limits.Starts < 0, c.Limits.DeadPerContainer < 0, c.Limits.DeadAge < 0:
		return fmt.Errorf("Config.Limits is %+v, want no negative Starts, DeadPerContainer or DeadAge", c.Limits)
	case c.MaxBackoff < 0, c.MaxBackoff > maxBackoff:
		return fmt.Errorf("Config.MaxBackoff is %s, want at most %s", c.MaxBackoff, maxBackoff)
	case c.Node.Root != "" && !filepath.IsAbs(c.Node.Root), c.Node.Logs != "" && !filepath.IsAbs(c.Node.Logs):
		return fmt.Errorf("Config.Node.Root is %q and Logs is %q, want absolute paths", c.Node.Root, c.Node.Logs)
	}
	return nil
}

// Syncer runs pods on a container runtime. It is a podworker.Syncer.
type Syncer struct {
	runtime    Runtime
	conditions conditions // nil if the runtime does not tell
	cfg        Config
	log        *slog.Logger
	starts     *gate
	disk       disk
	// elsewhere sends the requests of hooks that name a host; nil: Parts.HTTP does.
	elsewhere Doer
	// keepDead is how many dead runs of each container stay; Thin makes it smaller.
	keepDead atomic.Int64

	// mu guards pods, never the records in it.
	mu   sync.Mutex
	pods map[types.UID]*record
}

var _ podworker.Syncer = (*Syncer)(nil)

// New returns a Syncer for a runtime. It does nothing yet.
func New(rt Runtime, cfg Config) (*Syncer, error) { return newWith(rt, cfg, localDisk{}) }

// newWith is New with the disk handed in.
func newWith(rt Runtime, cfg Config, d disk) (*Syncer, error) {
	if rt == nil {
		return nil, errors.New("podsync: New needs a Runtime")
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("podsync: %w", err)
	}
	if cfg.Node.Root == "" {
		cfg.Node.Root = podspec.DefaultRoot
	}
	if cfg.Node.Logs == "" {
		cfg.Node.Logs = podspec.DefaultLogs
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Parts.HTTP == nil {
		cfg.Parts.HTTP = hookClient(nil)
	}
	s := &Syncer{runtime: rt, cfg: cfg, log: cfg.Log, starts: newGate(cfg.Limits.Starts), disk: d, pods: map[types.UID]*record{}}
	if cfg.Parts.Reach != nil {
		s.elsewhere = hookClient(cfg.Parts.Reach)
	}
	s.conditions, _ = rt.(conditions)
	s.keepDead.Store(int64(max(cfg.Limits.DeadPerContainer, 1)))
	return s, nil
}

// can returns what is done for pods by the Syncer and by those it was given.
func (c *Config) can() podspec.Ability {
	can := c.Can | podspec.InitContainers | podspec.EphemeralContainers | podspec.Hooks | podspec.Deadlines | podspec.RestartRules
	_, volumes := c.Parts.Images.(volumeImages)
	for _, part := range []struct {
		has bool
		can podspec.Ability
	}{
		{has: c.Prober != nil, can: podspec.Probes},
		{has: c.Parts.Volumes != nil, can: podspec.Volumes},
		{has: c.Parts.Mounts != nil, can: podspec.SubPaths},
		{has: c.Parts.PodCgroups != nil, can: podspec.PodCgroups},
		{has: volumes, can: podspec.ImageVolumes},
		{has: c.Parts.References != nil, can: podspec.ReferencedObjects},
	} {
		if part.has {
			can |= part.can
		}
	}
	return can
}
