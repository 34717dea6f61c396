//go:build linux

package volume

import (
	"context"
	"math/rand/v2"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Manager sets up the volumes of pods and keeps their content new. Its methods may be
// called by many goroutines at once. What it needs to know stands on disk: after the death
// of the process, SetUp and TearDown go on with what they find.
type Manager struct {
	cfg     Config
	dirs    layout
	mounter Mounter
	seed    [32]byte      // orders trust anchors
	writes  chan struct{} // holds a value for each set of files that is being written
	wake    chan struct{} // of size 1, for Run
	// allocatable is what the node can give to its pods now.
	allocatable atomic.Pointer[corev1.ResourceList]

	// mu guards all below, the records and what they hold. It is never held over anything
	// that waits.
	mu      sync.Mutex
	pods    map[types.UID]*record
	working int           // goroutines that work on volumes
	idle    chan struct{} // closed when none does any more; nil: nobody waits for it
}

// New returns a Manager. It does nothing yet.
func New(cfg Config) (*Manager, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg:    cfg,
		dirs:   layout(cfg.Root),
		writes: make(chan struct{}, max(4, 2*goruntime.GOMAXPROCS(0))),
		wake:   make(chan struct{}, 1),
		pods:   map[types.UID]*record{},
	}
	for i := range m.seed {
		m.seed[i] = byte(rand.Uint32())
	}
	m.SetAllocatable(cfg.Allocatable)
	return m, nil
}

// SetAllocatable says what the node can give to its pods from now on, in place of
// Config.Allocatable, as when the machine has got more memory. Volumes that are there stay
// as they are. The list is not to be changed afterwards.
func (m *Manager) SetAllocatable(list corev1.ResourceList) { m.allocatable.Store(&list) }

// drain is how long Run waits at its end for what still works on volumes.
const drain = 5 * time.Second

// Run keeps the content of volumes new until ctx ends: it sets those up again of which
// something has changed, those whose time has come, and all with changing content once in a
// while. It returns nil. SetUp and TearDown work without it, too.
//
// At its end it waits for what still works on volumes, but not longer than five seconds:
// what hangs in a system call cannot be ended.
func (m *Manager) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			m.end()
			return nil
		case <-m.wake: // something has changed, or a time was set
		case <-timer.C: // the time of a volume has come
		}
		timer.Reset(m.refresh(ctx, time.Now()))
	}
}

// goLocked does work on volumes in a goroutine of its own.
func (m *Manager) goLocked(work func()) {
	m.working++
	go func() {
		work()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.working--
		if m.working == 0 && m.idle != nil {
			close(m.idle)
			m.idle = nil
		}
	}()
}

// end cuts off what works on volumes and waits for it.
func (m *Manager) end() {
	m.mu.Lock()
	for _, r := range m.pods {
		for _, v := range r.volumes {
			if v.running != nil {
				v.running.cancel()
			}
		}
	}
	if m.working == 0 {
		m.mu.Unlock()
		return
	}
	if m.idle == nil {
		m.idle = make(chan struct{})
	}
	idle := m.idle
	m.mu.Unlock()
	select {
	case <-idle:
	case <-time.After(drain):
		m.cfg.Log.Warn("something on a volume hangs, it is left behind", "after", drain)
	}
}

// Changed says that an object has changed, appeared or gone. The volumes that show it are
// set up again, by Run or by the SetUp that waits for it. It never blocks.
func (m *Manager) Changed(o Object) {
	m.mu.Lock()
	for _, r := range m.pods {
		for _, v := range r.volumes {
			if v.shows(r.pod.Namespace, o) {
				v.touch()
			}
		}
	}
	m.mu.Unlock()
	m.wakeUp()
}

// Update hands in a newer version of a pod. The volumes that show something of it are set up
// again, by Run. It never blocks, and does nothing for a pod without volumes.
func (m *Manager) Update(pod *corev1.Pod) {
	m.mu.Lock()
	if r := m.pods[pod.UID]; r != nil && !r.leaving {
		r.become(pod)
		for _, v := range r.volumes {
			if v.showsPod() {
				v.touch()
			}
		}
	}
	m.mu.Unlock()
	m.wakeUp()
}

func (m *Manager) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// refresh begins to set up again the volumes whose time has come, and returns how long
// there is nothing to do.
func (m *Manager) refresh(ctx context.Context, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	wait := m.cfg.Resync
	for _, r := range m.pods {
		if r.leaving {
			continue
		}
		for _, v := range r.volumes {
			switch {
			case !v.ready || v.running != nil: // who waits for it goes on with it
			case v.touched || !v.next.IsZero() && !now.Before(v.next):
				m.beginLocked(ctx, r, v)
			case !v.next.IsZero():
				wait = min(wait, v.next.Sub(now))
			}
		}
	}
	return wait
}

func (m *Manager) event(pod *corev1.Pod, e Event) {
	if m.cfg.OnEvent != nil {
		m.cfg.OnEvent(pod, e)
	}
}

// Unmounted reports whether nothing is left of the volumes of a pod, in memory or on disk.
func (m *Manager) Unmounted(uid types.UID) bool {
	m.mu.Lock()
	_, known := m.pods[uid]
	m.mu.Unlock()
	return !known && (!isElement(uid) || m.nothingIn(uid))
}
