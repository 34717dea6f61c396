package images

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The back-off of failed pulls: 10 s, doubling to 5 min
// (https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff).
const (
	firstBackoff = 10 * time.Second
	maxBackoff   = 5 * time.Minute
	// forgetAfter is how long after a failure the next one counts as the first.
	forgetAfter = 2 * maxBackoff
)

// backoffs remembers failed pulls by pod and image.
type backoffs struct {
	// mu guards failures.
	mu       sync.Mutex
	failures map[podImage]failure
}

type podImage struct {
	uid   types.UID
	image string
}

type failure struct {
	at   time.Time
	wait time.Duration
	err  *Error
}

// left returns how long to wait for the next pull and why; nil if there is no need.
func (b *backoffs) left(key podImage, now time.Time) (time.Duration, *Error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f := b.failures[key] // the zero value has been over for long
	left := f.at.Add(f.wait).Sub(now)
	if left <= 0 {
		return 0, nil
	}
	return left, f.err
}

// failed records a failure and returns how long to wait for the next pull.
func (b *backoffs) failed(key podImage, err *Error, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.failures, func(_ podImage, f failure) bool { return now.Sub(f.at) > forgetAfter })
	if b.failures == nil {
		b.failures = make(map[podImage]failure)
	}
	wait := firstBackoff
	if f, ok := b.failures[key]; ok {
		wait = min(2*f.wait, maxBackoff)
	}
	b.failures[key] = failure{at: now, wait: wait, err: err}
	return wait
}

// succeeded makes the next failure the first.
func (b *backoffs) succeeded(key podImage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.failures, key)
}

// forget drops all about a pod.
func (b *backoffs) forget(uid types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.failures, func(key podImage, _ failure) bool { return key.uid == uid })
}
