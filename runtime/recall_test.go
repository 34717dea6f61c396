package runtime

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// someContainers are count containers with maps, whose order on the wire is random.
func someContainers(count int) []*runtimeapi.Container {
	var list []*runtimeapi.Container
	for i := range count {
		list = append(list, &runtimeapi.Container{
			Id:           fmt.Sprintf("c%d", i),
			PodSandboxId: fmt.Sprintf("s%d", i),
			Metadata:     &runtimeapi.ContainerMetadata{Name: "app", Attempt: 1},
			Image:        &runtimeapi.ImageSpec{Image: "img.example/app:1"},
			State:        runtimeapi.ContainerState_CONTAINER_RUNNING,
			CreatedAt:    int64(i + 1),
			Labels:       map[string]string{"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"},
			Annotations:  map[string]string{"f": "6", "g": "7", "h": "8", "i": "9"},
		})
	}
	return list
}

func encode(tb testing.TB, m proto.Message) mem.BufferSlice {
	tb.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		tb.Fatal(err)
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}
}

func decode(t *testing.T, r *recall, list []*runtimeapi.Container) []*runtimeapi.Container {
	t.Helper()
	var got runtimeapi.ListContainersResponse
	if err := r.Unmarshal(encode(t, &runtimeapi.ListContainersResponse{Containers: list}), &got); err != nil {
		t.Fatal(err)
	}
	return got.Containers
}

func TestRecall(t *testing.T) {
	tests := map[string]struct {
		change func(c *runtimeapi.Container)
		again  bool // decoded again
	}{
		"nothing changed":             {change: func(*runtimeapi.Container) {}},
		"the state":                   {change: func(c *runtimeapi.Container) { c.State = runtimeapi.ContainerState_CONTAINER_EXITED }, again: true},
		"a label":                     {change: func(c *runtimeapi.Container) { c.Labels["a"] = "2" }, again: true},
		"values of labels swapped":    {change: func(c *runtimeapi.Container) { c.Labels["a"], c.Labels["b"] = "2", "1" }, again: true},
		"labels swapped with others":  {change: func(c *runtimeapi.Container) { c.Labels, c.Annotations = c.Annotations, c.Labels }, again: true},
		"a nested field":              {change: func(c *runtimeapi.Container) { c.Metadata.Attempt = 2 }, again: true},
		"a field moved to a sibling":  {change: func(c *runtimeapi.Container) { c.ImageRef, c.ImageId = "x", "" }, again: true},
		"two fields exchanged values": {change: func(c *runtimeapi.Container) { c.Id, c.PodSandboxId = c.PodSandboxId, c.Id }, again: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			list := someContainers(3)
			first := newRecall(nil)
			before := decode(t, first, list)
			if d := cmp.Diff(list, before, protocmp.Transform()); d != "" {
				t.Fatalf("first list (-want +got):\n%s", d)
			}
			list[1].Labels, list[1].Annotations = maps.Clone(list[1].Labels), maps.Clone(list[1].Annotations)
			test.change(list[1])
			for round := range 20 { // labels come in another order each time
				after := decode(t, newRecall(first.shown(nil)), list)
				if d := cmp.Diff(list, after, protocmp.Transform()); d != "" {
					t.Fatalf("round %d (-want +got):\n%s", round, d)
				}
				for i, want := range []bool{false, test.again, false} {
					if again := after[i] != before[i]; again != want {
						t.Errorf("round %d: container %d was decoded again: %v, want %v", round, i, again, want)
					}
				}
			}
		})
	}
}

// What is gone is not kept, and a list in several messages is one.
func TestRecallForgets(t *testing.T) {
	list := someContainers(10)
	first := newRecall(nil)
	for _, part := range [][]*runtimeapi.Container{list[:4], list[4:]} {
		var got runtimeapi.StreamContainersResponse
		if err := first.Unmarshal(encode(t, &runtimeapi.StreamContainersResponse{Containers: part}), &got); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(first.containers.known().items); got != 10 {
		t.Errorf("%d containers are known, want 10", got)
	}
	second := newRecall(first.shown(nil))
	decode(t, second, list[:3])
	if got := len(second.containers.known().items); got != 3 {
		t.Errorf("%d containers are known, want the 3 of the last list", got)
	}
}

func TestRecallOtherMessages(t *testing.T) {
	want := &runtimeapi.VersionResponse{RuntimeName: "test"}
	var got runtimeapi.VersionResponse
	if err := newRecall(nil).Unmarshal(encode(t, want), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, &got, protocmp.Transform()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// FuzzRecall shows that lists are what gRPC's codec makes of them, whatever comes.
func FuzzRecall(f *testing.F) {
	for _, n := range []int{0, 1, 3} {
		f.Add(encode(f, &runtimeapi.ListContainersResponse{Containers: someContainers(n)}).Materialize())
	}
	f.Add(protowire.AppendTag(nil, listField, protowire.BytesType))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := newRecall(nil)
		_ = before.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &runtimeapi.ListContainersResponse{})
		var got, want runtimeapi.ListContainersResponse
		err := newRecall(before.shown(nil)).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &got)
		if plain := proto.Unmarshal(data, &want); (plain == nil) != (err == nil) {
			t.Fatalf("decoding gives %v, want %v", err, plain)
		} else if plain != nil {
			return
		}
		if len(got.Containers) != len(want.Containers) {
			t.Fatalf("%d containers, want %d", len(got.Containers), len(want.Containers))
		}
		for i, c := range got.Containers {
			if !proto.Equal(c, want.Containers[i]) {
				t.Fatalf("container %d is\n%v, want\n%v", i, c, want.Containers[i])
			}
		}
	})
}

func BenchmarkRecall(b *testing.B) {
	data := encode(b, &runtimeapi.ListContainersResponse{Containers: someContainers(500)})
	for _, known := range []bool{false, true} {
		b.Run(fmt.Sprintf("known=%v", known), func(b *testing.B) {
			var before *shown
			if known {
				r := newRecall(nil)
				if err := r.Unmarshal(data, &runtimeapi.ListContainersResponse{}); err != nil {
					b.Fatal(err)
				}
				before = r.shown(nil)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := newRecall(before).Unmarshal(data, &runtimeapi.ListContainersResponse{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
