package devices

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// made returns devices by their IDs: "a" is healthy and anywhere, "a@0,1" at NUMA nodes
// 0 and 1, "a!" is unhealthy.
func made(texts ...string) map[string]Device {
	out := map[string]Device{}
	for _, text := range texts {
		d := parseDevice(text)
		out[d.ID] = d
	}
	return out
}

func TestChoice(t *testing.T) {
	for _, tt := range []struct {
		name      string
		req       request
		preferred []string
		offered   []string // of which the plugin may choose
		want      []string
		wantErr   string
	}{
		{name: "any", req: request{count: 2, devices: made("a", "b", "c")}, offered: []string{"a", "b", "c"}, want: []string{"a", "b"}},
		{name: "as the plugin prefers", req: request{count: 2, devices: made("a", "b", "c")}, preferred: []string{"c", "b"}, offered: []string{"a", "b", "c"}, want: []string{"b", "c"}},
		{name: "plugin prefers what it has not", req: request{count: 1, devices: made("a", "b")}, preferred: []string{"x"}, offered: []string{"a", "b"}, want: []string{"a"}},
		{name: "plugin prefers too few", req: request{count: 2, devices: made("a", "b", "c")}, preferred: []string{"c"}, offered: []string{"a", "b", "c"}, want: []string{"a", "c"}},
		{name: "plugin prefers too many", req: request{count: 1, devices: made("a", "b")}, preferred: []string{"b", "a"}, offered: []string{"a", "b"}, want: []string{"b"}},
		{name: "not what others have", req: request{count: 1, devices: made("a", "b"), taken: map[string]int{"a": 1}}, preferred: []string{"a"}, offered: []string{"b"}, want: []string{"b"}},
		{name: "not what is unhealthy", req: request{count: 1, devices: made("a!", "b")}, offered: []string{"b"}, want: []string{"b"}},
		{
			name: "too few", req: request{resource: "example.com/gpu", count: 2, devices: made("a!", "b", "c"), taken: map[string]int{"c": 1}},
			wantErr: "requested number of devices unavailable for example.com/gpu. Requested: 2, Available: 1",
		},
		{
			name: "those of init containers first", req: request{count: 2, devices: made("a", "b", "c"), taken: map[string]int{"c": 1}, reusable: []string{"c"}},
			offered: []string{"a", "b", "c"}, want: []string{"a", "c"},
		},
		{name: "those of init containers suffice", req: request{count: 1, devices: made("a", "c"), taken: map[string]int{"c": 1}, reusable: []string{"c"}}, want: []string{"c"}},
		{
			name: "those of init containers are not healthy", req: request{count: 1, devices: made("a", "c!"), taken: map[string]int{"c": 1}, reusable: []string{"c"}},
			offered: []string{"a"}, want: []string{"a"},
		},
		{
			name: "close ones only, as the plugin prefers", req: request{count: 1, devices: made("a@0", "b@1", "c@1"), nodes: []int{1}}, preferred: []string{"a", "c"},
			offered: []string{"b", "c"}, want: []string{"c"},
		},
		{
			name: "all close ones, then those the plugin prefers", req: request{count: 3, devices: made("a@0", "b@1", "c", "d@0"), nodes: []int{1}}, preferred: []string{"d"},
			offered: []string{"a", "b", "c", "d"}, want: []string{"a", "b", "d"},
		},
		{
			name: "far ones before those that are nowhere", req: request{count: 2, devices: made("a", "b@0", "c@1"), nodes: []int{1}},
			offered: []string{"a", "b", "c"}, want: []string{"b", "c"},
		},
		{name: "close to several nodes", req: request{count: 1, devices: made("a@0", "b@0,1"), nodes: []int{1}}, offered: []string{"a", "b"}, want: []string{"b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.ids = slices.Sorted(maps.Keys(tt.req.devices))
			o, err := tt.req.options()
			if got := text(err); got != tt.wantErr {
				t.Fatalf("error is %q, want %q", got, tt.wantErr)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tt.offered, o.offered); diff != "" {
				t.Errorf("devices to choose from (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, o.pick(tt.req.count, tt.preferred)); diff != "" {
				t.Errorf("chosen (-want +got):\n%s", diff)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
