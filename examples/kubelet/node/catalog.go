package node

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podsource"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/staticpods"
)

// catalog is the set of pods that have to run, and the newest status of each.
type catalog struct {
	mu sync.Mutex // guards the fields below
	// manifests is when the manifests were first delivered, heard when all sources had;
	// before that nothing is absent.
	manifests, heard time.Time
	// first are the pods of the first set whose status is not known yet.
	first map[types.UID]bool
	// revision grows with each change.
	revision uint64
	pods     map[types.UID]*corev1.Pod
	// statuses are not changed: they are replaced.
	statuses map[types.UID]*corev1.PodStatus
	// gone are the pods of the last set that are not in this one, or, before all sources
	// have delivered, of any.
	gone map[types.UID]*corev1.Pod
	// manifest has the names of the pods of manifests.
	manifest map[manifestName]bool
	// recalled are those that an earlier process had from a source that is silent.
	recalled map[types.UID]bool
}

// newCatalog returns a catalog that has heard nothing.
func newCatalog() *catalog {
	return &catalog{pods: map[types.UID]*corev1.Pod{}, statuses: map[types.UID]*corev1.PodStatus{}}
}

// replace takes what the sources have and returns the pods that are new or changed, in
// the order of the set.
func (c *catalog) replace(set podsource.Merged) []*corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var changed []*corev1.Pod
	c.revision++
	known := 0
	for _, pod := range set.Pods {
		old := c.pods[pod.UID]
		if old != nil {
			known++
		}
		if old != pod && (old == nil || differ(old, pod)) {
			changed = append(changed, pod)
		}
	}
	if known == len(set.Pods) && known == len(c.pods) && set.Complete && !c.heard.IsZero() {
		c.versions(set)
	} else {
		c.members(set)
	}
	return changed
}

// versions takes a set that has the pods of the last one.
func (c *catalog) versions(set podsource.Merged) {
	for _, pod := range set.Pods {
		c.pods[pod.UID] = pod
	}
	c.gone, c.recalled = nil, set.Recalled
}

// members takes a set in which pods have come or gone, or a source that was silent.
func (c *catalog) members(set podsource.Merged) {
	next := make(map[types.UID]*corev1.Pod, len(set.Pods))
	c.manifest = map[manifestName]bool{}
	for _, pod := range set.Pods {
		next[pod.UID] = pod
		if ofManifest(pod) {
			c.manifest[manifestNameOf(pod)] = true
		}
	}
	if c.manifests.IsZero() && !slices.Contains(set.Silent, fromFiles) {
		c.manifests = time.Now()
	}
	if c.heard.IsZero() && set.Complete {
		c.heard, c.first = time.Now(), map[types.UID]bool{}
		for uid := range next {
			if _, known := c.statuses[uid]; !known {
				c.first[uid] = true
			}
		}
	}
	before := c.gone
	c.gone = maps.Clone(c.pods)
	if !set.Complete {
		maps.Copy(c.gone, before)
	}
	maps.DeleteFunc(c.gone, func(uid types.UID, _ *corev1.Pod) bool { return next[uid] != nil })
	c.pods, c.recalled = next, set.Recalled
	if set.Complete { // before that nothing has ended for its absence
		maps.DeleteFunc(c.statuses, func(uid types.UID, _ *corev1.PodStatus) bool { return next[uid] == nil })
	}
	maps.DeleteFunc(c.first, func(uid types.UID, _ bool) bool { return next[uid] == nil })
}

// differ reports whether a new version of a pod means something else than the old
// one. When a source first saw it does not matter, nor does its status, unless somebody has
// ended the pod.
func differ(a, b *corev1.Pod) bool {
	return !equality.Semantic.DeepEqual(a.Spec, b.Spec) ||
		!equality.Semantic.DeepEqual(a.DeletionTimestamp, b.DeletionTimestamp) ||
		!equality.Semantic.DeepEqual(a.DeletionGracePeriodSeconds, b.DeletionGracePeriodSeconds) ||
		podstatus.IsTerminal(a.Status.Phase) != podstatus.IsTerminal(b.Status.Phase) ||
		a.Name != b.Name || a.Namespace != b.Namespace ||
		!maps.Equal(a.Labels, b.Labels) ||
		!maps.Equal(stated(a.Annotations), stated(b.Annotations)) ||
		!equality.Semantic.DeepEqual(gates(a), gates(b))
}

// gates returns the conditions that others set, such as readiness gates.
func gates(pod *corev1.Pod) []corev1.PodCondition {
	return slices.DeleteFunc(slices.Clone(pod.Status.Conditions), func(c corev1.PodCondition) bool {
		return slices.Contains(ownConditions(), c.Type)
	})
}

// stated returns the annotations without those the node writes for itself.
func stated(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	delete(out, staticpods.AnnotationSeen)
	delete(out, staticpods.AnnotationSource)
	return out
}

// pod returns a pod of the set.
func (c *catalog) pod(uid types.UID) (*corev1.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, ok := c.pods[uid]
	return pod, ok
}

// gonePod returns a pod that the last set had and this one has not.
func (c *catalog) gonePod(uid types.UID) (*corev1.Pod, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, ok := c.gone[uid]
	return pod, ok
}

// ready reports whether the whole set is known.
func (c *catalog) ready() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.heard.IsZero()
}

// read reports whether the manifests are known.
func (c *catalog) read() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.manifests.IsZero()
}

// settleLimit is how long the first statuses may take, and an API server, before the pods
// are shown without them.
const settleLimit = 10 * time.Second

// settled reports whether the statuses are those of the pods as they are: a process
// that has just started must not show pods that have run for days as Pending, or not at
// all. It does not wait for an API server that is away.
func (c *catalog) settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard.IsZero() {
		return !c.manifests.IsZero() && time.Since(c.manifests) > settleLimit
	}
	return len(c.first) == 0 || time.Since(c.heard) > settleLimit
}

// wants reports whether a pod has to run, or may have to: before the source has
// delivered that is so for every pod.
func (c *catalog) wants(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard.IsZero() || c.pods[uid] != nil
}

// isRecalled reports whether a pod is only known from an earlier process.
func (c *catalog) isRecalled(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.recalled[uid]
}

// uids returns the UIDs of the set at this moment.
func (c *catalog) uids() iter.Seq[types.UID] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(slices.Collect(maps.Keys(c.pods)))
}

// setStatus takes the newest status of a pod. Those of pods that are not in the set
// any more are dropped.
func (c *catalog) setStatus(pod *corev1.Pod, status corev1.PodStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pods[pod.UID] == nil {
		return
	}
	delete(c.first, pod.UID)
	if old := c.statuses[pod.UID]; old != nil && equality.Semantic.DeepEqual(*old, status) {
		return
	}
	c.statuses[pod.UID] = &status
	c.revision++
}

// status returns the newest status of a pod, false if there is none yet.
func (c *catalog) status(uid types.UID) (corev1.PodStatus, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.statuses[uid]
	if !ok {
		return corev1.PodStatus{}, false
	}
	return *s, true
}

// knownPod is a pod with its newest status.
type knownPod struct {
	pod    *corev1.Pod
	status *corev1.PodStatus
}

// known returns the pods of the set whose status is known. They are not to be changed.
func (c *catalog) known() []knownPod {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make([]knownPod, 0, len(c.pods))
	for uid, status := range c.statuses {
		if pod := c.pods[uid]; pod != nil {
			known = append(known, knownPod{pod, status})
		}
	}
	return known
}

// version returns the revision of what list returns.
func (c *catalog) version() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.revision
}

// list returns the set with its statuses, sorted by namespace and name, and its
// revision.
func (c *catalog) list() (*corev1.PodList, uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	list := &corev1.PodList{
		TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"},
		Items:    make([]corev1.Pod, 0, len(c.pods)),
	}
	for uid, pod := range c.pods {
		item := *pod.DeepCopy()
		if s, ok := c.statuses[uid]; ok {
			item.Status = *s.DeepCopy()
		}
		list.Items = append(list.Items, item)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return list, c.revision
}
