package podsync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// graveyard lists dead containers, the oldest first: "pod/container" each.
func graveyard(names ...string) []*runtimeapi.Container {
	var out []*runtimeapi.Container
	for i, name := range names {
		pod, container, _ := strings.Cut(name, "/")
		out = append(out, &runtimeapi.Container{
			Id: fmt.Sprintf("%s#%d", name, i), State: runtimeapi.ContainerState_CONTAINER_EXITED,
			Metadata: &runtimeapi.ContainerMetadata{Name: container}, CreatedAt: noon.Add(time.Duration(i) * time.Second).UnixNano(),
			Labels: map[string]string{
				podspec.LabelPodName: pod, podspec.LabelPodNamespace: "default", podspec.LabelPodUID: pod, podspec.LabelContainerName: container,
			},
		})
	}
	return out
}

// TestThin decides what goes of a node with two pods that live and one that has ended.
func TestThin(t *testing.T) {
	tests := []struct {
		name        string
		dead        []string
		limit, keep int
		age         time.Duration
		wantKeep    int
		want        []string
	}{
		{name: "within all limits", dead: []string{"a/x", "a/x", "b/x"}, limit: 3, keep: 2, wantKeep: 2},
		{name: "one container has too many", dead: []string{"a/x", "a/x", "a/x"}, limit: 9, keep: 2, wantKeep: 2, want: []string{"a/x#0"}},
		{name: "all keep fewer, and equally many", dead: []string{"a/x", "a/x", "a/x", "b/x", "b/y"}, limit: 6, keep: 3, wantKeep: 3},
		{name: "two of three each", dead: []string{"a/x", "a/x", "a/x", "b/x", "b/x", "b/x"}, limit: 4, keep: 3, wantKeep: 2, want: []string{"a/x#0", "b/x#3"}},
		{name: "the last of one that lives stays", dead: []string{"a/x", "b/x", "b/y"}, limit: 1, keep: 1, wantKeep: 1},
		{name: "no limit holds for those", dead: []string{"a/x", "a/x"}, limit: 0, keep: 5, wantKeep: 1, want: []string{"a/x#0"}},
		{name: "the oldest of one that has ended", dead: []string{"end/x", "a/x", "end/y", "end/z"}, limit: 2, keep: 1, wantKeep: 1, want: []string{"end/x#0", "end/y#2"}},
		{name: "one that has ended keeps what fits", dead: []string{"a/x", "end/x", "end/x"}, limit: 2, keep: 2, wantKeep: 1, want: []string{"end/x#1"}},
		{name: "too young", dead: []string{"a/x", "a/x", "a/x"}, limit: 1, keep: 1, age: time.Minute, wantKeep: 1},
		{name: "some too young", dead: []string{"a/x", "a/x", "a/x"}, limit: 1, keep: 1, age: 59 * time.Second, wantKeep: 1, want: []string{"a/x#0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all := corpses(graveyard(tt.dead...), noon.Add(time.Minute-tt.age))
			for i := range all {
				all[i].ended = all[i].pod.UID == types.UID("end")
			}
			keep, surplus := thin(all, tt.limit, tt.keep)
			var got []string
			for _, c := range surplus {
				got = append(got, c.ID)
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" || keep != tt.wantKeep {
				t.Errorf("each keeps %d, want %d; what goes (-want +got):\n%s", keep, tt.wantKeep, diff)
			}
		})
	}
}
