package node

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
)

// Plan returns what the node would do first for a pod, by what its runtime shows now.
// Nothing is done, neither on the runtime nor on the disk. A pod of the same namespace
// and name that runs already is taken for an earlier version of this one. The error says
// why the pod would be refused, or that the runtime does not answer.
func (n *Node) Plan(ctx context.Context, pod *corev1.Pod) (podsync.Actions, error) {
	rt, name, err := n.dial(ctx)
	if err != nil {
		return podsync.Actions{}, err
	}
	defer rt.Close() //nolint:errcheck // all calls have returned
	snap, err := rt.Snapshot(ctx)
	if err != nil {
		return podsync.Actions{}, err
	}
	pod = pod.DeepCopy()
	if uid, ok := running(snap, pod); ok {
		pod.UID = uid
	}
	sync, err := n.syncConfig("preview", name, n.driver)
	if err != nil {
		return podsync.Actions{}, err
	}
	if st, err := rt.Status(ctx, false); err == nil && st.GetFeatures().GetSupplementalGroupsPolicy() {
		sync.Can |= podspec.StrictGroups
	}
	sync.Can |= n.abilities() | podspec.SubPaths | podspec.Volumes | podspec.PodCgroups | podspec.LocalStorage | podspec.Devices
	sync.Prober = undecided{}
	s, err := podsync.New(rt, sync)
	if err != nil {
		return podsync.Actions{}, err
	}
	actions, err := s.Plan(ctx, pod)
	if err != nil {
		return podsync.Actions{}, fmt.Errorf("plan pod %s: %w", fullName(pod), err)
	}
	return actions, nil
}

// running returns the UID of the newest pod of that namespace and name.
func running(snap *runtime.Snapshot, pod *corev1.Pod) (uid types.UID, ok bool) {
	newest := int64(0)
	for id, p := range snap.Pods {
		for _, sb := range p.Sandboxes {
			m := sb.GetMetadata()
			if m.GetNamespace() == pod.Namespace && m.GetName() == pod.Name && (!ok || sb.GetCreatedAt() > newest) {
				uid, ok, newest = id, true, sb.GetCreatedAt()
			}
		}
	}
	return uid, ok
}
