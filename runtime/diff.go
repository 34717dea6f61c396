package runtime

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ChangeKind says how a sandbox or a container differs between two snapshots.
type ChangeKind uint8

// The kinds of Change. A container that is there for the first time has the kind of
// the state it is in; one that ran and is gone has died and was removed.
const (
	SandboxReady ChangeKind = iota + 1
	SandboxNotReady
	SandboxRemoved
	ContainerCreated
	ContainerStarted
	ContainerDied
	ContainerRemoved
	// ContainerUnknown means that the runtime lost track of the container.
	ContainerUnknown
)

// String returns the kind's name, such as "ContainerDied".
func (k ChangeKind) String() string {
	switch k {
	case SandboxReady:
		return "SandboxReady"
	case SandboxNotReady:
		return "SandboxNotReady"
	case SandboxRemoved:
		return "SandboxRemoved"
	case ContainerCreated:
		return "ContainerCreated"
	case ContainerStarted:
		return "ContainerStarted"
	case ContainerDied:
		return "ContainerDied"
	case ContainerRemoved:
		return "ContainerRemoved"
	case ContainerUnknown:
		return "ContainerUnknown"
	}
	return "unknown change"
}

// Change is one difference of one sandbox or container.
type Change struct {
	Kind ChangeKind
	// ID is the sandbox's or container's id.
	ID string
	// Container is the name of the container; empty for a sandbox.
	Container string
}

// String returns the kind, the container's name and the id.
func (c Change) String() string {
	return strings.Join(strings.Fields(c.Kind.String()+" "+c.Container+" "+c.ID), " ")
}

// PodChange is a pod that differs between two snapshots, and why.
type PodChange struct {
	UID types.UID
	// Changes are never empty: sandboxes first, each group sorted by id.
	Changes []Change
}

// Diff returns the pods whose sandboxes or containers changed between old and now,
// sorted by UID. A nil snapshot counts as empty, so that the first Diff of a process
// names every pod. Diff is pure, and cheap when little changed.
func Diff(old, now *Snapshot) []PodChange {
	var changes []PodChange
	for uid, n := range now.pods() {
		o := old.pods()[uid]
		if o == n || o != nil && looksEqual(o, n) {
			continue
		}
		if c := diffPod(o, n); len(c) > 0 {
			changes = append(changes, PodChange{UID: uid, Changes: c})
		}
	}
	for uid, o := range old.pods() {
		if now.pods()[uid] == nil {
			changes = append(changes, PodChange{UID: uid, Changes: diffPod(o, nil)})
		}
	}
	slices.SortFunc(changes, func(a, b PodChange) int { return cmp.Compare(a.UID, b.UID) })
	return changes
}

func (s *Snapshot) pods() map[types.UID]*Pod {
	if s == nil {
		return nil
	}
	return s.Pods
}

// looksEqual finds most of the pods that did not change, without a map: both lists are
// in the same order.
func looksEqual(old, now *Pod) bool {
	return slices.EqualFunc(old.Sandboxes, now.Sandboxes, func(a, b *runtimeapi.PodSandbox) bool {
		return a.GetId() == b.GetId() && a.GetState() == b.GetState()
	}) && slices.EqualFunc(old.Containers, now.Containers, func(a, b *runtimeapi.Container) bool {
		return a.GetId() == b.GetId() && a.GetState() == b.GetState()
	})
}

func diffPod(old, now *Pod) []Change {
	if old == nil {
		old = &Pod{}
	}
	if now == nil {
		now = &Pod{}
	}
	return append(diffSandboxes(old.Sandboxes, now.Sandboxes), diffContainers(old.Containers, now.Containers)...)
}

func diffSandboxes(old, now []*runtimeapi.PodSandbox) []Change {
	was, is := byID(old), byID(now)
	var changes []Change
	for id, n := range is {
		if o := was[id]; o != nil && o.GetState() == n.GetState() {
			continue
		}
		kind := SandboxNotReady
		if n.GetState() == runtimeapi.PodSandboxState_SANDBOX_READY {
			kind = SandboxReady
		}
		changes = append(changes, Change{Kind: kind, ID: id})
	}
	for id := range was {
		if is[id] == nil {
			changes = append(changes, Change{Kind: SandboxRemoved, ID: id})
		}
	}
	slices.SortStableFunc(changes, compareChanges)
	return changes
}

func diffContainers(old, now []*runtimeapi.Container) []Change {
	was, is := byID(old), byID(now)
	var changes []Change
	add := func(kind ChangeKind, c *runtimeapi.Container) {
		changes = append(changes, Change{Kind: kind, ID: c.GetId(), Container: c.GetMetadata().GetName()})
	}
	for id, n := range is {
		if o := was[id]; o == nil || o.GetState() != n.GetState() {
			add(kindOfState(n.GetState()), n)
		}
	}
	for id, o := range was {
		if is[id] != nil {
			continue
		}
		if ran(o.GetState()) {
			add(ContainerDied, o)
		}
		add(ContainerRemoved, o)
	}
	slices.SortStableFunc(changes, compareChanges)
	return changes
}

// ran reports whether a container last seen in this state may have had a process.
func ran(s runtimeapi.ContainerState) bool {
	return s == runtimeapi.ContainerState_CONTAINER_RUNNING || s == runtimeapi.ContainerState_CONTAINER_UNKNOWN
}

func kindOfState(s runtimeapi.ContainerState) ChangeKind {
	switch s {
	case runtimeapi.ContainerState_CONTAINER_CREATED:
		return ContainerCreated
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		return ContainerStarted
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		return ContainerDied
	default:
		return ContainerUnknown
	}
}

func compareChanges(a, b Change) int { return cmp.Compare(a.ID, b.ID) }

func byID[T interface{ GetId() string }](list []T) map[string]T {
	m := make(map[string]T, len(list))
	for _, v := range list {
		m[v.GetId()] = v
	}
	return m
}
