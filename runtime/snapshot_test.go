package runtime

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ids is what a snapshot holds, by pod; "" has what is not attributed.
func ids(s *Snapshot) map[types.UID][]string {
	got := make(map[types.UID][]string)
	add := func(uid types.UID, p *Pod) {
		for _, sb := range p.Sandboxes {
			got[uid] = append(got[uid], sb.GetId())
		}
		for _, ct := range p.Containers {
			got[uid] = append(got[uid], ct.GetId())
		}
	}
	for uid, p := range s.Pods {
		add(uid, p)
	}
	add("", &s.Unattributed)
	return got
}

func TestNewSnapshot(t *testing.T) {
	at := func(c *runtimeapi.Container, createdAt int64, attempt uint32) *runtimeapi.Container {
		c.CreatedAt, c.Metadata.Attempt = createdAt, attempt
		return c
	}
	older := func(s *runtimeapi.PodSandbox) *runtimeapi.PodSandbox {
		s.CreatedAt = -1
		return s
	}
	unlabelled := func(s *runtimeapi.PodSandbox) *runtimeapi.PodSandbox {
		s.Labels = nil
		return s
	}
	for _, c := range []struct {
		name string
		snap *Snapshot
		want map[types.UID][]string
	}{
		{"empty", snap(), map[types.UID][]string{}},
		{"by label", snap(sb("a", "s1", true), sb("b", "s2", true), ct("b", "c2", running)), map[types.UID][]string{"a": {"s1"}, "b": {"s2", "c2"}}},
		{"container without a sandbox", snap(ct("a", "c1", exited)), map[types.UID][]string{"a": {"c1"}}},
		{"sandbox without labels", snap(unlabelled(sb("a", "s1", true))), map[types.UID][]string{"a": {"s1"}}},
		{
			"container without labels",
			snap(sb("a", "s1", true), &runtimeapi.Container{Id: "c1", PodSandboxId: "s1", Metadata: &runtimeapi.ContainerMetadata{}}),
			map[types.UID][]string{"a": {"s1", "c1"}},
		},
		{"newest first", snap(at(ct("a", "c1", exited), 1, 0), at(ct("a", "c3", running), 3, 2), at(ct("a", "c2", exited), 2, 1)), map[types.UID][]string{"a": {"c3", "c2", "c1"}}},
		{"newest sandbox first", snap(older(sb("a", "s1", false)), sb("a", "s2", true)), map[types.UID][]string{"a": {"s2", "s1"}}},
		{"attempt decides a tie", snap(at(ct("a", "c1", exited), 1, 0), at(ct("a", "c2", exited), 1, 1)), map[types.UID][]string{"a": {"c2", "c1"}}},
		{
			"half-filled entries",
			snap(&runtimeapi.PodSandbox{}, &runtimeapi.PodSandbox{Id: "s1", Labels: map[string]string{labelPodUID: "a"}}, &runtimeapi.Container{Id: "c1"}, ct("", "c2", running)),
			map[types.UID][]string{"": {"", "s1", "c1", "c2"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, ids(c.snap)); d != "" {
				t.Errorf("snapshot (-want +got):\n%s", d)
			}
		})
	}
}

// bigSnapshot has n pods of one sandbox, two containers that run and one that ended.
func bigSnapshot(n int) *Snapshot {
	var sandboxes []*runtimeapi.PodSandbox
	var containers []*runtimeapi.Container
	for i := range n {
		uid := time.Duration(i).String()
		sandboxes = append(sandboxes, sb(uid, "s"+uid, true))
		containers = append(containers, ct(uid, "x"+uid, exited), ct(uid, "y"+uid, running), ct(uid, "z"+uid, running))
	}
	return NewSnapshot(time.Time{}, sandboxes, containers)
}

func BenchmarkDiff500Pods(b *testing.B) {
	old, now := bigSnapshot(500), bigSnapshot(500)
	now.Pods[types.UID(time.Duration(7).String())].Containers[1].State = exited
	b.ReportAllocs()
	for b.Loop() {
		if n := len(Diff(old, now)); n != 1 {
			b.Fatalf("%d pods changed, want 1", n)
		}
	}
}
