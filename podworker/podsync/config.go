package podsync

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Config is how a [Syncer] works. Only Node.Instance is required.
type Config struct {
	// Node is what the node contributes to the configurations of its pods.
	Node podspec.Node
	// RuntimeName goes before container ids in statuses, as in "containerd://0123";
	// empty: ids stand alone.
	RuntimeName string
	// LogLinks is the directory of links to the logs of running containers, which
	// log collectors read (the kubelet's is /var/log/containers); empty: no links.
	LogLinks string
	// MaxBackoff is the longest crash back-off; 0: 5 minutes, the largest value.
	MaxBackoff time.Duration
	// TakeOver allows to stop and to remove what another agent made although no
	// source names its pod.
	TakeOver bool
	// Prober has the results of probes. With nil, pods with probes are refused.
	Prober podstatus.Prober
	// Cgroups removes the cgroup of a pod that has ended; nil: it is left to the
	// runtime. See [CgroupDirs].
	Cgroups Cgroups
	// OnStatus gets each new status of a pod, OnEvent what users want to know. They
	// are called by many goroutines and must not block; nil: nobody listens.
	OnStatus func(pod *corev1.Pod, status corev1.PodStatus)
	OnEvent  func(pod *corev1.Pod, event Event)
	// Log gets what no error reports; nil: nothing is logged.
	Log *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Node.Instance == "":
		return errors.New("Config.Node.Instance is empty, want the id of this agent")
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

	// mu guards pods, never the records in it.
	mu   sync.Mutex
	pods map[types.UID]*record
}

var _ podworker.Syncer = (*Syncer)(nil)

// New returns a Syncer for a runtime. It does nothing yet.
func New(rt Runtime, cfg Config) (*Syncer, error) {
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
	s := &Syncer{runtime: rt, cfg: cfg, log: cfg.Log, pods: map[types.UID]*record{}}
	s.conditions, _ = rt.(conditions)
	return s, nil
}

// record is what is remembered of one pod between calls. It belongs to the one
// call that is out for the pod, so it needs no lock. Losing it costs no restart.
type record struct {
	// status is the last one published.
	status *corev1.PodStatus
	// checked is the pod last checked for fields that are not honoured.
	checked *corev1.Pod
	refusal error
	// waiting has why containers could not be started, by name.
	waiting map[string]podstatus.Waiting
	// failedStarts has created containers that would not start, by id.
	failedStarts map[string]bool
	// pulls has the back-off of failed pulls, by image.
	pulls map[string]pull
	// told has, by kind of event, whom it was sent about and must not be again.
	told map[string]map[string]bool
	// badSandbox is when a sandbox was made that cannot be used; zero after a good one.
	badSandbox time.Time
	// stopping is when the first attempt to stop the pod that has not succeeded yet
	// began.
	stopping time.Time
	// end is how the pod was told to end.
	end podstatus.End
	// over is true once the pod was cleaned up.
	over bool
}

// record returns the record of a pod, a new one at first.
func (s *Syncer) record(pod *corev1.Pod) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.pods[pod.UID]
	if !ok {
		r = &record{
			waiting:      map[string]podstatus.Waiting{},
			failedStarts: map[string]bool{},
			pulls:        map[string]pull{},
			told:         map[string]map[string]bool{},
		}
		if pod.Status.Phase != "" {
			r.status = pod.Status.DeepCopy()
		}
		s.pods[pod.UID] = r
	}
	return r
}

// drop forgets the record of a pod.
func (s *Syncer) drop(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.pods, uid)
}

// once reports whether an event of a kind is the first about its subject.
func (r *record) once(kind, subject string) bool {
	if r.told[kind][subject] {
		return false
	}
	if r.told[kind] == nil {
		r.told[kind] = map[string]bool{}
	}
	r.told[kind][subject] = true
	return true
}

// Kinds of events that are sent once: about a container by id, about a field, or
// about what the network lacks.
const (
	toldKilling = "killing"
	toldBackoff = "back-off"
	toldField   = "field"
	toldNetwork = "network"
)

// prune forgets what was remembered of containers that are gone.
func (r *record) prune(seen *podstatus.Observed) {
	gone := func(id string, _ bool) bool {
		return !slices.ContainsFunc(seen.Containers, func(c podstatus.Instance) bool { return c.ID == id })
	}
	maps.DeleteFunc(r.failedStarts, gone)
	maps.DeleteFunc(r.told[toldKilling], gone)
	maps.DeleteFunc(r.told[toldBackoff], gone)
}

// callGrace is how long a call that must not be torn is given to end by itself
// after its pod has been told to stop.
const callGrace = 3 * time.Second

// finishing returns a context for calls such as RunPodSandbox whose effect would be
// lost if they were cut off at once: it outlives ctx by callGrace.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(callGrace)
		defer timer.Stop()
		select {
		case <-timer.C:
			cancel()
		case <-out.Done():
		}
	})
	return out, func() {
		stop()
		cancel()
	}
}
