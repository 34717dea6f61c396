package proxiertest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

// Op names a method of proxier.Backend.
type Op string

// The methods of proxier.Backend.
const (
	Apply   Op = "Apply"
	Reset   Op = "Reset"
	Cleanup Op = "Cleanup"
)

// Call is one call that a Backend got.
type Call struct {
	Op Op
	// Delta is the input of Apply.
	Delta proxier.Delta
	// State is the input of Reset.
	State *proxier.State
	// Err is what the call returned.
	Err error
}

// Backend is a proxier.Backend in memory. Misuse is an error of the test: two calls
// at once, Apply before a successful Reset or after an error, input that is not
// sorted or has a key twice, a frontend that two ServicePorts own, a ServicePort
// that changed after it was handed over.
type Backend struct {
	tb testing.TB
	// busy is held during a call, without waiting.
	busy sync.Mutex

	// mu guards what follows.
	mu       sync.Mutex
	fail     func(Call) error
	calls    []Call
	inForce  map[proxier.Key]*proxier.ServicePort
	handed   map[proxier.Key]copied
	unknown  bool // an Apply failed, or no Reset has been yet
	onReturn func(Call)
}

// copied pairs a ServicePort with a deep copy made when it came.
type copied struct {
	given *proxier.ServicePort
	copy  proxier.ServicePort
}

var _ proxier.Backend = (*Backend)(nil)

// NewBackend returns a Backend with nothing in force that reports misuse to tb.
func NewBackend(tb testing.TB) *Backend {
	tb.Helper()
	return &Backend{
		tb: tb, unknown: true,
		inForce: map[proxier.Key]*proxier.ServicePort{},
		handed:  map[proxier.Key]copied{},
	}
}

// Fail makes every later call ask f, before it changes anything, for the error to
// return. Nil stops that. f may block, and may itself call whatever it likes but
// the Backend.
func (b *Backend) Fail(f func(Call) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = f
}

// OnCall has f called after each call, outside all locks.
func (b *Backend) OnCall(f func(Call)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onReturn = f
}

// Calls returns the calls so far, in order.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// State returns what is in force.
func (b *Backend) State() *proxier.State {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := &proxier.State{}
	for _, key := range slices.SortedFunc(maps.Keys(b.inForce), proxier.Key.Compare) {
		s.Ports = append(s.Ports, b.inForce[key])
	}
	return s
}

// Apply changes what is in force by d.
func (b *Backend) Apply(_ context.Context, d proxier.Delta) error {
	return b.call(Call{Op: Apply, Delta: d}, b.applyLocked)
}

// Reset makes s what is in force.
func (b *Backend) Reset(_ context.Context, s *proxier.State) error {
	return b.call(Call{Op: Reset, State: s}, b.resetLocked)
}

// Cleanup leaves nothing in force.
func (b *Backend) Cleanup(context.Context) error {
	return b.call(Call{Op: Cleanup}, func(Call) error {
		clear(b.inForce)
		clear(b.handed)
		b.unknown = true
		return nil
	})
}

func (b *Backend) call(c Call, do func(Call) error) error {
	if !b.busy.TryLock() {
		b.tb.Errorf("Backend.%s: called during another call", c.Op)
		return fmt.Errorf("busy")
	}
	defer b.busy.Unlock()
	b.mu.Lock()
	fail := b.fail
	b.mu.Unlock()
	if fail != nil {
		c.Err = fail(c)
	}
	b.mu.Lock()
	if c.Err == nil {
		c.Err = do(c)
	} else {
		b.unknown = true
	}
	b.checkHandedLocked()
	b.calls = append(b.calls, c)
	onReturn := b.onReturn
	b.mu.Unlock()
	if onReturn != nil {
		onReturn(c)
	}
	return c.Err
}

func (b *Backend) applyLocked(c Call) error {
	if b.unknown {
		b.tb.Errorf("Backend.Apply: what is in force is unknown; Reset must come first")
	}
	if c.Delta.Empty() {
		b.tb.Errorf("Backend.Apply: the delta is empty")
	}
	if !slices.IsSortedFunc(c.Delta.Update, comparePorts) {
		b.tb.Errorf("Backend.Apply: Update is not sorted")
	}
	for _, key := range c.Delta.Remove {
		delete(b.inForce, key)
		delete(b.handed, key)
	}
	for _, sp := range c.Delta.Update {
		if slices.Contains(c.Delta.Remove, sp.Key) {
			b.tb.Errorf("Backend.Apply: %s is both removed and updated", sp.Key)
		}
		b.putLocked(sp)
	}
	b.checkOwnersLocked(Apply)
	return nil
}

func (b *Backend) resetLocked(c Call) error {
	if !slices.IsSortedFunc(c.State.Ports, comparePorts) {
		b.tb.Errorf("Backend.Reset: Ports are not sorted")
	}
	clear(b.inForce)
	clear(b.handed)
	for _, sp := range c.State.Ports {
		if b.inForce[sp.Key] != nil {
			b.tb.Errorf("Backend.Reset: %s is there twice", sp.Key)
		}
		b.putLocked(sp)
	}
	b.unknown = false
	b.checkOwnersLocked(Reset)
	return nil
}

func (b *Backend) putLocked(sp *proxier.ServicePort) {
	b.inForce[sp.Key] = sp
	c := *sp
	c.Frontends = slices.Clone(sp.Frontends)
	c.Cluster = slices.Clone(sp.Cluster)
	c.Local = slices.Clone(sp.Local)
	c.Serving = slices.Clone(sp.Serving)
	c.SourceRanges = slices.Clone(sp.SourceRanges)
	b.handed[sp.Key] = copied{given: sp, copy: c}
}

func (b *Backend) checkHandedLocked() {
	for key, c := range b.handed {
		if !c.given.Equal(&c.copy) {
			b.tb.Errorf("Backend: %s changed after it was handed over", key)
		}
	}
}

// checkOwnersLocked looks for frontends with two owners, after the whole input, as
// a frontend may move from one ServicePort to another within one.
func (b *Backend) checkOwnersLocked(op Op) {
	type at struct {
		family   proxier.Family
		protocol proxier.Protocol
		addr     netip.Addr
		port     uint16
	}
	owners := map[at]proxier.Key{}
	for key, sp := range b.inForce {
		for _, f := range sp.Frontends {
			k := at{key.Family, key.Protocol, f.Addr, f.Port}
			if other, taken := owners[k]; taken {
				b.tb.Errorf("Backend.%s: %s %s:%d belongs to both %s and %s", op, f.Kind, f.Addr, f.Port, key, other)
			}
			owners[k] = key
		}
	}
}

func comparePorts(a, b *proxier.ServicePort) int { return a.Key.Compare(b.Key) }
