package node

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podstore"
)

// PodStore has a node keep the specs of its API pods on the disk, so that it runs them
// after a reboot or a restart of the kubelet while the API server is away. The zero value
// works.
type PodStore struct {
	// Sealer encrypts the Secrets that the pods refer to; nil: none is kept, and pods that
	// need one wait for the API server.
	Sealer podstore.Sealer
	// Patience is how long the API server is asked at the start before the pods of the
	// store are run; 0: 10 s. When it is over the API server is asked once more.
	Patience time.Duration
}

// storeDir is where the specs are, and defaultPatience is more than an API server takes
// that answers at all.
const (
	storeDir        = "pod-store"
	defaultPatience = 10 * time.Second
	// lastChance is how long it has for the last answer.
	lastChance = 2 * time.Second
	// storeRetry is the time after which a set is written again that could not be.
	storeRetry = time.Minute
)

// standby keeps the API pods of a node on the disk and brings back those of an earlier
// process while the API server is silent. A nil standby does nothing.
type standby struct {
	log      *slog.Logger
	store    *podstore.Store
	recalled podstore.Recalled
	patience time.Duration
	// renewed is when the Lease of the node was last renewed; nil: the node has none.
	renewed func() time.Time
	// wake says that there is something to be written.
	wake chan struct{}
	// heard is closed when the API server has told its set.
	heard   chan struct{}
	hearing sync.Once

	mu sync.Mutex // guards the fields below
	// pods is the newest set, and fresh says that it is not written yet.
	pods  []*corev1.Pod
	fresh bool
	// contact is when the cluster last heard of the node while its pods were known here.
	contact time.Time
}

// newStandby returns the pods of an earlier process; nil if none are kept. A store that
// cannot be used is reported, and the node goes on without.
func newStandby(n *Node) *standby {
	if n.cfg.PodStore == nil {
		return nil
	}
	store, err := podstore.Open(podstore.Config{Dir: filepath.Join(n.cfg.Root, storeDir), Sealer: n.cfg.PodStore.Sealer})
	if err != nil {
		n.log.Error("the pod store is damaged; its pods that are lost do not start before the API server answers", "err", err)
	}
	if store == nil {
		return nil
	}
	s := &standby{
		log: n.log, store: store, recalled: store.Recall(), patience: n.cfg.PodStore.Patience,
		wake: make(chan struct{}, 1), heard: make(chan struct{}),
	}
	if s.patience == 0 {
		s.patience = defaultPatience
	}
	if n.beat != nil {
		s.renewed = n.beat.renewed
	}
	return s
}

// run brings the pods of the earlier process back if the API server is silent, and writes
// what it tells, until ctx ends.
func (s *standby) run(ctx context.Context, ask func(), recall func([]*corev1.Pod)) error {
	if s == nil {
		return nil
	}
	patience, silence, retry := time.NewTimer(s.patience), time.NewTimer(s.patience+lastChance), time.NewTimer(0)
	defer patience.Stop()
	defer silence.Stop()
	defer retry.Stop()
	retry.Stop()
	heard, failing := s.heard, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-heard: // the store is not needed
			patience.Stop()
			silence.Stop()
			heard = nil
		case <-patience.C: // the API server may have come up since it was asked last
			ask()
		case <-silence.C: // it is silent
			s.log.Warn("the API server does not answer; the pods of the pod store are run",
				"pods", len(s.recalled.Pods), "lastContact", s.recalled.Contact)
			recall(s.recalled.Pods)
		case <-s.wake: // there is a set, or there was a contact
			err := s.write()
			if err != nil {
				retry.Reset(storeRetry)
			}
			if err != nil && !failing {
				s.log.Error("pods could not be stored; after a reboot without the API server they do not run", "err", err)
			}
			failing = err != nil
		case <-retry.C: // the last set could not be written
			s.again()
		}
	}
}

// again has the last set written once more.
func (s *standby) again() {
	s.mu.Lock()
	s.fresh = true
	s.mu.Unlock()
	s.poke()
}

// write brings the disk up to date.
func (s *standby) write() error {
	s.mu.Lock()
	pods, fresh, contact := s.pods, s.fresh, s.contact
	s.fresh = false
	s.mu.Unlock()
	if fresh {
		if err := s.store.Replace(pods); err != nil {
			return err
		}
	}
	if contact.IsZero() {
		return nil
	}
	return s.store.Contact(contact)
}

// replace takes the set of the API server.
func (s *standby) replace(pods []*corev1.Pod) {
	if s == nil {
		return
	}
	s.hearing.Do(func() { close(s.heard) })
	s.mu.Lock()
	s.pods, s.fresh = pods, true
	s.mu.Unlock()
	s.poke()
}

// answered takes note that the API server has told how the pods are. The cluster judges a
// node by its Lease: it has heard of this one when that was last renewed.
func (s *standby) answered() {
	if s == nil {
		return
	}
	contact := time.Now()
	if s.renewed != nil {
		contact = s.renewed()
	}
	s.mu.Lock()
	s.contact = contact
	s.mu.Unlock()
	s.poke()
}

func (s *standby) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// ended takes note that a pod must not run again.
func (s *standby) ended(uid types.UID) error {
	if s == nil {
		return nil
	}
	return s.store.Ended(uid)
}

// hold reports why a pod that is only known from an earlier process may not start: the
// cluster may have given it up by now. One that runs goes on.
func (a *agent) hold(pod *corev1.Pod) (string, bool) {
	if !a.catalog.isRecalled(pod.UID) || a.alive(pod.UID) {
		return "", false
	}
	s := a.cluster.standby
	ok, until := s.recalled.MayStart(pod, time.Now())
	if ok {
		return "", false
	}
	if s.recalled.Contact.IsZero() {
		return "the API server does not answer, and nobody knows when it last heard of this node", true
	}
	return fmt.Sprintf("the API server does not answer, and the pod's toleration of an unreachable node has run out at %s",
		until.Format(time.RFC3339)), true
}

// alive reports whether a pod has a sandbox that runs.
func (a *agent) alive(uid types.UID) bool {
	snap := a.snapshot.Load()
	if snap == nil || snap.Pods[uid] == nil {
		return false
	}
	for _, sb := range snap.Pods[uid].Sandboxes {
		if sb.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			return true
		}
	}
	return false
}

// reasonUnreachable is the reason of a pod that waits for the API server.
const reasonUnreachable = "NodeUnreachable"

// wait has a pod wait for the API server, which is not told: it knows better.
func (a *agent) wait(pod *corev1.Pod, why string) podworker.Outcome {
	if last, _ := a.catalog.status(pod.UID); last.Reason != reasonUnreachable {
		a.log.Warn("pod of the pod store does not start", "pod", fullName(pod), "uid", string(pod.UID), "why", why)
	}
	a.catalog.setStatus(pod, corev1.PodStatus{
		Phase: corev1.PodPending, Reason: reasonUnreachable, Message: why, QOSClass: podstatus.QOSClass(pod), ObservedGeneration: pod.Generation,
	})
	return podworker.Outcome{Again: askAgain}
}
