package runtime

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// labelPodUID is the label under which the kubelet stores the pod's UID on sandboxes
// and containers; every node agent that wants to take over or hand back must write
// it. It is among the "well-known labels" of the kubelet's pkg/types.
const labelPodUID = "io.kubernetes.pod.uid"

// Snapshot is what one list of sandboxes and one of containers showed, grouped by
// pod. It is immutable: others have parts of it, too.
type Snapshot struct {
	// Taken is when the lists were asked for: everything that had happened by then is
	// in them.
	Taken time.Time
	// Pods holds an entry for each pod that has a sandbox or a container, in any
	// state.
	Pods map[types.UID]*Pod
	// Unattributed are the sandboxes and containers that name no pod, have no id or no
	// metadata. Diff does not look at them.
	Unattributed Pod
}

// Pod is one pod in a Snapshot.
type Pod struct {
	UID types.UID
	// Sandboxes are the pod's sandboxes, newest first. Id and Metadata are set.
	Sandboxes []*runtimeapi.PodSandbox
	// Containers are the pod's containers, newest first, those of earlier sandboxes
	// too. Id and Metadata are set.
	Containers []*runtimeapi.Container
}

// Snapshot lists all sandboxes and then all containers. The two lists are not of one
// instant: a container may be there whose sandbox is not. An error means that
// nothing is known, never that nothing is there.
//
// What did not change since the last Snapshot of this Client is shared with it.
func (c *Client) Snapshot(ctx context.Context) (*Snapshot, error) {
	taken := time.Now()
	codec := newRecall(c.shown.Load())
	sandboxes, err := c.listSandboxes(ctx, nil, grpc.ForceCodecV2(codec))
	if err != nil {
		return nil, err
	}
	containers, err := c.listContainers(ctx, nil, grpc.ForceCodecV2(codec))
	if err != nil {
		return nil, err
	}
	if same := codec.unchanged(); same != nil {
		return same.asOf(taken), nil
	}
	s := NewSnapshot(taken, sandboxes, containers)
	c.shown.Store(codec.shown(s))
	return s, nil
}

// asOf returns s for a later time, at which nothing was different.
func (s *Snapshot) asOf(taken time.Time) *Snapshot {
	later := *s
	later.Taken = taken
	return &later
}

// NewSnapshot groups sandboxes and containers by the UID in their labels. A sandbox
// without the label counts by the UID in its metadata, a container without it by its
// sandbox. The lists are kept, not copied.
func NewSnapshot(taken time.Time, sandboxes []*runtimeapi.PodSandbox, containers []*runtimeapi.Container) *Snapshot {
	s := &Snapshot{Taken: taken, Pods: make(map[types.UID]*Pod, len(sandboxes))}
	uidOf := make(map[string]types.UID, len(sandboxes))
	for _, sb := range sandboxes {
		var uid types.UID
		if sb.GetId() != "" && sb.GetMetadata() != nil {
			uid = types.UID(cmp.Or(sb.GetLabels()[labelPodUID], sb.GetMetadata().GetUid()))
			uidOf[sb.GetId()] = uid
		}
		p := s.pod(uid)
		p.Sandboxes = append(p.Sandboxes, sb)
	}
	for _, ct := range containers {
		var uid types.UID
		if ct.GetId() != "" && ct.GetMetadata() != nil {
			uid = cmp.Or(types.UID(ct.GetLabels()[labelPodUID]), uidOf[ct.GetPodSandboxId()])
		}
		p := s.pod(uid)
		p.Containers = append(p.Containers, ct)
	}
	for _, p := range s.Pods {
		slices.SortFunc(p.Sandboxes, newestSandboxFirst)
		slices.SortFunc(p.Containers, newestContainerFirst)
	}
	return s
}

// pod is the entry to add to; the zero uid has Unattributed.
func (s *Snapshot) pod(uid types.UID) *Pod {
	if uid == "" {
		return &s.Unattributed
	}
	p, ok := s.Pods[uid]
	if !ok {
		p = &Pod{UID: uid}
		s.Pods[uid] = p
	}
	return p
}

// The creation time decides, then the attempt, then the id, so that the order is the
// same in each snapshot.
func newestSandboxFirst(a, b *runtimeapi.PodSandbox) int {
	return cmp.Or(
		cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
		cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
		cmp.Compare(a.GetId(), b.GetId()),
	)
}

func newestContainerFirst(a, b *runtimeapi.Container) int {
	return cmp.Or(
		cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()),
		cmp.Compare(b.GetMetadata().GetAttempt(), a.GetMetadata().GetAttempt()),
		cmp.Compare(a.GetId(), b.GetId()),
	)
}
