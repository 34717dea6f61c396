package lease

import (
	"math/rand/v2"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// action is one request.
type action uint8

const (
	read action = iota
	findOwner
	create
	renew
)

// String completes "… lease kube-node-lease/node-a".
func (a action) String() string {
	switch a {
	case read:
		return "get"
	case findOwner:
		return "find the node that owns"
	case create:
		return "create"
	default:
		return "renew"
	}
}

// answer is what a request brought: a UID for findOwner, a Lease otherwise.
type answer struct {
	lease *coordinationv1.Lease
	owner types.UID
}

// state is what a Keeper knows of its Lease, and what it does to get it renewed.
type state struct {
	// lease is the Lease as the server last returned it; nil if it has to be read or
	// created.
	lease *coordinationv1.Lease
	// missing says that the server has no Lease.
	missing bool
	// owner is the UID of the Node, empty if it has to be asked for.
	owner types.UID
	// first and sent are when the first and the last request that writes the Lease began
	// since it was renewed: the renewTimes that were sent. Zero, if there was none.
	first, sent time.Time
	// at is the renewTime of the last renewal.
	at time.Time
	// failures counts the attempts since the last renewal that failed.
	failures int
	// renewed and failed say what became of the last request; neither, if it was a step
	// on the way.
	renewed, failed bool
}

// next returns the request that is due. A Lease that is to have an owner is not
// created without.
func (s state) next(owned bool) action {
	switch {
	case s.lease != nil:
		return renew
	case !s.missing:
		return read
	case owned && s.owner == "":
		return findOwner
	default:
		return create
	}
}

// after returns the state after a request.
func (s state) after(act action, got answer, err error) state {
	s.failed, s.renewed = false, false
	switch {
	case err == nil && act == findOwner:
		s.owner = got.owner
	case err == nil && act == read:
		// It may have an owner that is no more. A write whose answer was lost may have
		// arrived: a server that is slow is not asked for the same thing twice.
		s.lease, s.owner = got.lease, ""
		s.at, s.renewed = s.landed(got.lease)
	case err == nil:
		s.lease, s.missing, s.at, s.renewed = got.lease, false, s.sent, true
	case apierrors.IsNotFound(err) && (act == read || act == renew):
		// A Node takes its Lease with it: the owner may be another one by now.
		s.lease, s.missing, s.owner = nil, true, ""
	case apierrors.IsConflict(err) && act == renew, apierrors.IsAlreadyExists(err) && act == create:
		s.lease, s.missing, s.failed = nil, false, true
	default:
		s.failed = true
	}
	if s.failed {
		s.failures++
	}
	if s.renewed {
		s.first, s.sent = time.Time{}, time.Time{}
	}
	return s
}

// sending returns the state with a request that writes the Lease.
func (s state) sending(now time.Time) state {
	if s.first.IsZero() {
		s.first = now
	}
	s.sent = now
	return s
}

// landed reports whether a Lease is one that was sent, and when that was.
func (s state) landed(l *coordinationv1.Lease) (time.Time, bool) {
	if s.first.IsZero() || l.Spec.RenewTime == nil {
		return time.Time{}, false
	}
	after := l.Spec.RenewTime.Sub(s.first.Truncate(time.Microsecond))
	return s.first.Add(after), after >= 0 && after <= s.sent.Sub(s.first)+time.Microsecond
}

// write returns the Lease to be sent: base renewed at a time, or a new one if base is
// nil. What others wrote into it stays, but for the holder, the duration and the Node
// that owns it.
func (c Config) write(base *coordinationv1.Lease, owner types.UID, now time.Time) *coordinationv1.Lease {
	l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: c.Name, Namespace: c.Namespace}}
	if base != nil {
		l = base.DeepCopy()
	}
	seconds := int32(c.Duration / time.Second)
	l.Spec.HolderIdentity = &c.Holder
	l.Spec.LeaseDurationSeconds = &seconds
	l.Spec.RenewTime = &metav1.MicroTime{Time: now}
	if owner != "" {
		l.OwnerReferences = ownedBy(l.OwnerReferences, c.Name, owner)
	}
	return l
}

// ownedBy returns owner references in which the only Node is the one of a name and UID.
func ownedBy(refs []metav1.OwnerReference, name string, uid types.UID) []metav1.OwnerReference {
	want := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: uid}
	if slices.Contains(refs, want) {
		return refs
	}
	refs = slices.DeleteFunc(slices.Clone(refs), func(r metav1.OwnerReference) bool {
		return r.APIVersion == want.APIVersion && r.Kind == want.Kind
	})
	return append(refs, want)
}

const (
	// firstWait is the wait after the second failure; the first one is answered at
	// once, on a new connection. Each further wait is twice as long.
	firstWait = 200 * time.Millisecond
	// maxWait bounds the waits, as in the kubelet.
	maxWait = 7 * time.Second
	// early is the number of attempts that have half of the timeout.
	early = 2
	// spread is by how much of itself a period is prolonged at most, as in the kubelet.
	spread = 0.04
)

// timeout returns how long a request may take after a number of failures.
func timeout(failures int, full time.Duration) time.Duration {
	if failures < early {
		return full / 2
	}
	return full
}

// retryWait returns how long to wait after a failure. It is never longer than an
// eighth of the Lease's duration, so that a server that can be reached again is in
// time; only a server that asks for more patience gets up to a quarter.
func retryWait(failures int, duration time.Duration, err error) time.Duration {
	wait := time.Duration(0)
	if failures > 1 {
		limit := min(maxWait, duration/8)
		wait = min(limit, firstWait<<min(failures-2, 10))
		wait -= time.Duration(rand.Float64() * float64(wait) / 2)
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		wait = max(wait, min(time.Duration(seconds)*time.Second, duration/4))
	}
	return wait
}

// jitter prolongs a period by chance.
func jitter(period time.Duration) time.Duration {
	return period + time.Duration(rand.Float64()*spread*float64(period))
}

// worthSaying thins out the log: the attempts 1, 2, 4, 8, 16, and each 16th.
func worthSaying(attempt int) bool {
	return attempt&(attempt-1) == 0 || attempt%16 == 0
}
