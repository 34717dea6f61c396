package devices

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// hintsOf returns the hints for a request as text; "any" if the resource does not matter.
func (w *world) hintsOf(r topology.Request) string {
	list := w.Hints(r)[gpu]
	if list == nil {
		return "any"
	}
	var out []string
	for _, h := range list {
		out = append(out, fmt.Sprint(h))
	}
	return strings.Join(out, "; ")
}

func TestHints(t *testing.T) {
	for _, tt := range []struct {
		name    string
		devices []string
		pods    []string // each takes one device before
		ask     []string
		want    string
	}{
		{"no places", []string{"a", "b"}, nil, []string{"app=1"}, "any"},
		{"one of two nodes", []string{"a@0", "b@1"}, nil, []string{"app=1"}, "0 preferred; 1 preferred; 0,1"},
		{"more than a node has", []string{"a@0", "b@1"}, nil, []string{"app=2"}, "0,1 preferred"},
		{"more than there are", []string{"a@0", "b@1"}, nil, []string{"app=3"}, ""},
		{"a node is full", []string{"a@0", "b@1", "c@1"}, []string{"x"}, []string{"app=1"}, "1 preferred; 0,1"},
		{"would fit if the node were idle", []string{"a@0", "b@0", "c@1"}, []string{"x"}, []string{"app=2"}, "0,1"},
		{"device close to two nodes", []string{"a@0,1", "b@0"}, nil, []string{"app=1"}, "0 preferred; 1 preferred; 0,1"},
		{"unhealthy", []string{"a@0!", "b@1"}, nil, []string{"app=1"}, "1 preferred; 0,1"},
		{"nodes without devices", []string{"a@3"}, nil, []string{"app=1"}, "3 preferred"},
		{"nodes that the machine has not", []string{"a@9", "b@0"}, nil, []string{"app=1"}, "0 preferred"},
		{"what it asks not for", []string{"a@0"}, nil, []string{"app=0"}, "any"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, Config{NUMANodes: 0b1111}, func(w *world) {
				for i, d := range tt.devices { // "a@0!" reads better than "a!@0"
					if bad, ok := strings.CutSuffix(d, "!"); ok {
						id, node, _ := strings.Cut(bad, "@")
						tt.devices[i] = id + "!@" + node
					}
				}
				w.plug(devicestest.Config{}, tt.devices...)
				for _, name := range tt.pods {
					w.mustAdmit(newPod(name, "app=1"))
				}
				pod := newPod("pod", tt.ask...)
				w.want("hints", w.hintsOf(topology.Request{Pod: pod, Container: &pod.Spec.Containers[0]}), tt.want)
			})
		})
	}
}

// TestHintsOfWhatIsThere are those of the devices that a container has, and of those that
// an init container leaves.
func TestHintsOfWhatIsThere(t *testing.T) {
	bubble(t, Config{NUMANodes: 0b11}, func(w *world) {
		w.plug(devicestest.Config{}, "a@0", "b@1", "c@1")
		pod := newPod("pod", "i:init=1", "app=2")
		init, app := topology.Request{Pod: pod, Container: &pod.Spec.InitContainers[0]}, topology.Request{Pod: pod, Container: &pod.Spec.Containers[0]}
		one, err := topology.NodesOf(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Allocate(w.Context(), init, topology.Hint{Nodes: one}); err != nil {
			t.Fatal(err)
		}
		w.want("devices of the init container", w.has(pod, "init"), "b")
		w.want("hints for it again", w.hintsOf(init), "1 preferred; 0,1")
		w.want("hints for the regular one, which takes over", w.hintsOf(app), "1 preferred; 0,1")
		if err := w.Allocate(w.Context(), app, topology.Hint{Nodes: one}); err != nil {
			t.Fatal(err)
		}
		w.want("devices of the regular one", w.has(pod, "app"), "b,c")
		w.want("hints for the whole pod", w.hintsOf(topology.Request{Pod: pod}), "1 preferred; 0,1")
		if err := w.Allocate(w.Context(), app, topology.Hint{}); err != nil || w.has(pod, "app") != "b,c" {
			t.Errorf("allocated again it has %s, %v, want the same", w.has(pod, "app"), err)
		}
	})
}

// TestPreferenceStaysNearby has a plugin prefer what is elsewhere.
func TestPreferenceStaysNearby(t *testing.T) {
	bubble(t, Config{NUMANodes: 0b11}, func(w *world) {
		first := func(available, _ []string, size int) []string { return []string{"a", "c"}[:min(size+1, 2)] }
		w.plug(devicestest.Config{Prefer: first}, "a@0", "b@1", "c@1")
		pod := newPod("pod", "app=1")
		r := topology.Request{Pod: pod, Container: &pod.Spec.Containers[0]}
		one, err := topology.NodesOf(1)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Allocate(w.Context(), r, topology.Hint{Nodes: one}); err != nil {
			t.Fatal(err)
		}
		if err := w.Prepare(w.Context(), pod); err != nil {
			t.Fatal(err)
		}
		w.want("devices", w.has(pod, "app"), "c")
	})
}
