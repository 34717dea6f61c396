package node

import (
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// leftoverRest is how long what could not be removed is left alone. containerd 1.6, for
// one, keeps a container until it is restarted if the call to start it was cut off.
const leftoverRest = time.Minute

// leftovers are stopped pods of which something could not be removed.
type leftovers struct {
	log *slog.Logger

	mu   sync.Mutex // guards next
	next map[types.UID]time.Time
}

func newLeftovers(log *slog.Logger) *leftovers {
	return &leftovers{log: log, next: map[types.UID]time.Time{}}
}

// note says why something of a pod is still there.
func (l *leftovers) note(pod *corev1.Pod, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.next[pod.UID]; !known {
		l.log.Warn("something of a pod that has stopped is left, it will be tried again", "pod", fullName(pod), "uid", string(pod.UID), "every", leftoverRest, "err", err)
	}
	l.next[pod.UID] = time.Now().Add(leftoverRest)
}

// resting reports whether it is too early to try again.
func (l *leftovers) resting(uid types.UID, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Before(l.next[uid])
}

// count is of how many pods something is left.
func (l *leftovers) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.next)
}

// drop forgets a pod of which nothing is left.
func (l *leftovers) drop(uid types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.next, uid)
}
