package node

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// putBack are pods whose manifest was removed and is back as it was, and which have to end
// and start anew.
type putBack struct {
	mu   sync.Mutex // guards uids
	uids []types.UID
}

func (p *putBack) add(uids []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.uids = append(p.uids, uids...)
}

// take returns the pods once.
func (p *putBack) take() []types.UID {
	p.mu.Lock()
	defer p.mu.Unlock()
	uids := p.uids
	p.uids = nil
	return uids
}

// withPutBack adds to the changed pods those that were put back, and returns the UIDs of
// these. To the pool they vanish and come.
func (a *agent) withPutBack(changed []*corev1.Pod) ([]*corev1.Pod, []types.UID) {
	uids := a.putBack.take()
	for _, uid := range uids {
		pod, ok := a.catalog.pod(uid)
		if ok && !slices.ContainsFunc(changed, func(o *corev1.Pod) bool { return o.UID == uid }) {
			changed = append(changed, pod)
		}
	}
	return changed, uids
}
