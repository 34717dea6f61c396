package runtime

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	created = runtimeapi.ContainerState_CONTAINER_CREATED
	running = runtimeapi.ContainerState_CONTAINER_RUNNING
	exited  = runtimeapi.ContainerState_CONTAINER_EXITED
	unknown = runtimeapi.ContainerState_CONTAINER_UNKNOWN
)

// sb and ct are entries of lists, of the pod uid.
func sb(uid, id string, ready bool) *runtimeapi.PodSandbox {
	state := runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	if ready {
		state = runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return &runtimeapi.PodSandbox{
		Id: id, State: state,
		Metadata: &runtimeapi.PodSandboxMetadata{Name: uid, Uid: uid},
		Labels:   map[string]string{labelPodUID: uid},
	}
}

func ct(uid, id string, state runtimeapi.ContainerState) *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: id, State: state,
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Labels:   map[string]string{labelPodUID: uid},
	}
}

// snap makes a snapshot of sandboxes and containers.
func snap(entries ...any) *Snapshot {
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	for _, e := range entries {
		switch e := e.(type) {
		case *runtimeapi.PodSandbox:
			sandboxes = append(sandboxes, e)
		case *runtimeapi.Container:
			containers = append(containers, e)
		}
	}
	return NewSnapshot(time.Time{}, sandboxes, containers)
}

func TestDiff(t *testing.T) {
	for _, c := range []struct {
		name     string
		old, now *Snapshot
		// want has a line per change.
		want map[types.UID][]string
	}{
		{name: "nothing and nothing"},
		{name: "first look", now: snap(sb("a", "s1", true), ct("a", "c1", running)), want: map[types.UID][]string{"a": {"SandboxReady s1", "ContainerStarted app c1"}}},
		{name: "no change", old: snap(sb("a", "s1", true), ct("a", "c1", running)), now: snap(sb("a", "s1", true), ct("a", "c1", running))},
		{name: "created", old: snap(), now: snap(ct("a", "c1", created)), want: map[types.UID][]string{"a": {"ContainerCreated app c1"}}},
		{name: "started", old: snap(ct("a", "c1", created)), now: snap(ct("a", "c1", running)), want: map[types.UID][]string{"a": {"ContainerStarted app c1"}}},
		{name: "died", old: snap(ct("a", "c1", running)), now: snap(ct("a", "c1", exited)), want: map[types.UID][]string{"a": {"ContainerDied app c1"}}},
		{name: "lived and died between two looks", old: snap(), now: snap(ct("a", "c1", exited)), want: map[types.UID][]string{"a": {"ContainerDied app c1"}}},
		{name: "lost track", old: snap(ct("a", "c1", running)), now: snap(ct("a", "c1", unknown)), want: map[types.UID][]string{"a": {"ContainerUnknown app c1"}}},
		{name: "removed after its end", old: snap(ct("a", "c1", exited)), now: snap(), want: map[types.UID][]string{"a": {"ContainerRemoved app c1"}}},
		{name: "removed before its start", old: snap(ct("a", "c1", created)), now: snap(), want: map[types.UID][]string{"a": {"ContainerRemoved app c1"}}},
		{name: "removed while it ran", old: snap(ct("a", "c1", running)), now: snap(), want: map[types.UID][]string{"a": {"ContainerDied app c1", "ContainerRemoved app c1"}}},
		{name: "removed while out of sight", old: snap(ct("a", "c1", unknown)), now: nil, want: map[types.UID][]string{"a": {"ContainerDied app c1", "ContainerRemoved app c1"}}},
		{name: "sandbox stopped", old: snap(sb("a", "s1", true)), now: snap(sb("a", "s1", false)), want: map[types.UID][]string{"a": {"SandboxNotReady s1"}}},
		{name: "sandbox replaced", old: snap(sb("a", "s1", true)), now: snap(sb("a", "s2", true)), want: map[types.UID][]string{"a": {"SandboxRemoved s1", "SandboxReady s2"}}},
		{
			name: "pods do not mix",
			old:  snap(ct("a", "c1", running), ct("b", "c2", running), ct("c", "c3", running)),
			now:  snap(ct("a", "c1", running), ct("b", "c2", exited), ct("d", "c4", running)),
			want: map[types.UID][]string{"b": {"ContainerDied app c2"}, "c": {"ContainerDied app c3", "ContainerRemoved app c3"}, "d": {"ContainerStarted app c4"}},
		},
		{name: "entries without a pod", old: snap(), now: snap(ct("", "c1", running), &runtimeapi.PodSandbox{})},
	} {
		t.Run(c.name, func(t *testing.T) {
			diff := Diff(c.old, c.now)
			if !slices.IsSortedFunc(diff, func(a, b PodChange) int { return strings.Compare(string(a.UID), string(b.UID)) }) {
				t.Errorf("changes are not sorted by pod: %v", diff)
			}
			got := make(map[types.UID][]string)
			for _, pc := range diff {
				for _, change := range pc.Changes {
					got[pc.UID] = append(got[pc.UID], change.String())
				}
			}
			if c.want == nil {
				c.want = map[types.UID][]string{}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
		})
	}
}

func TestEveryChangeHasAName(t *testing.T) {
	seen := make(map[string]bool)
	for k := SandboxReady; k <= ContainerUnknown; k++ {
		if name := k.String(); name == ChangeKind(0).String() || seen[name] {
			t.Errorf("kind %d is called %q", k, name)
		} else {
			seen[name] = true
		}
	}
}
