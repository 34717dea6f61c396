package node

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/staticpods"
)

// ownership says what this agent may stop although no source names it.
type ownership struct {
	instance string
	takeOver bool
	// adopted has pods that others made and this agent took over by their UID.
	adopted map[types.UID]string
}

// owns reports whether every sandbox of a pod is this agent's.
func (o ownership) owns(p *runtime.Pod) bool {
	if _, adopted := o.adopted[p.UID]; adopted || o.takeOver {
		return true
	}
	return !slices.ContainsFunc(p.Sandboxes, func(sb *runtimeapi.PodSandbox) bool {
		return podsync.Owner(sb) != o.instance
	})
}

// orphan is a pod that only the runtime knows.
type orphan struct {
	pod *corev1.Pod
	// grace is what the pod's containers say of their grace period; 0: nothing.
	grace time.Duration
}

// findOrphans returns the pods of a snapshot that this agent may stop and that
// nobody wants, sorted by UID.
func findOrphans(snap *runtime.Snapshot, own ownership, unwanted func(*corev1.Pod) bool) []orphan {
	var found []orphan
	for _, p := range snap.Pods {
		if len(p.Sandboxes) == 0 {
			continue
		}
		pod, ok := podsync.Orphan(p.Sandboxes[0])
		if !ok || !unwanted(pod) || !own.owns(p) {
			continue
		}
		if podsync.Owner(p.Sandboxes[0]) != own.instance {
			// The Syncer leaves others' orphans alone. This one is ours by adoption.
			pod.Annotations = map[string]string{
				staticpods.AnnotationSource: p.Sandboxes[0].GetAnnotations()[staticpods.AnnotationSource],
			}
		}
		found = append(found, orphan{pod: pod, grace: graceOf(p)})
	}
	slices.SortFunc(found, func(a, b orphan) int { return cmp.Compare(a.pod.UID, b.pod.UID) })
	return found
}

// graceOf returns the longest grace period that the containers of a pod were made
// with.
func graceOf(p *runtime.Pod) time.Duration {
	var longest time.Duration
	for _, c := range p.Containers {
		seconds, err := strconv.ParseInt(c.GetAnnotations()[podspec.AnnotationTerminationGrace], 10, 32)
		if err == nil {
			longest = max(longest, time.Duration(seconds)*time.Second)
		}
	}
	return longest
}

// findAdoptable returns the UID under which a pod of a source runs already, made by
// an agent that is not of this project: a ready sandbox of the same full name from
// the same kind of source, whose containers are those of the spec.
func findAdoptable(snap *runtime.Snapshot, pod *corev1.Pod) (types.UID, bool) {
	var uids []types.UID
	for uid, p := range snap.Pods {
		if len(p.Sandboxes) > 0 && runs(p, pod) {
			uids = append(uids, uid)
		}
	}
	if len(uids) != 1 {
		return "", false // none, or nobody can say which
	}
	return uids[0], true
}

// runs reports whether p runs what pod asks for.
func runs(p *runtime.Pod, pod *corev1.Pod) bool {
	sb := p.Sandboxes[0]
	if sb.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY ||
		podsync.Owner(sb) != "" ||
		sb.GetMetadata().GetName() != pod.Name || sb.GetMetadata().GetNamespace() != pod.Namespace ||
		sb.GetAnnotations()[staticpods.AnnotationSource] != pod.Annotations[staticpods.AnnotationSource] {
		return false
	}
	hashes := map[string]string{}
	for _, c := range p.Containers { // newest first
		if name := c.GetMetadata().GetName(); c.GetPodSandboxId() == sb.GetId() && hashes[name] == "" {
			hashes[name] = c.GetAnnotations()[podspec.AnnotationHash]
		}
	}
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	for i := range all {
		if hashes[all[i].Name] != podspec.ContainerHash(&all[i]) {
			return false
		}
	}
	return len(hashes) == len(all)
}
