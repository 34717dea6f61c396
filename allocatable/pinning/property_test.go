package pinning

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/allocatable/internal/order"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

// drawShape returns a machine of up to 64 CPUs.
func drawShape(t *rapid.T) stockShape {
	return rapid.SampledFrom([]stockShape{
		smallHT, twoSockets, fourNodes, manyCaches,
		{Name: "4 sockets, 2 NUMA", Sockets: 4, Nodes: 2, Cores: 16, Threads: 1, Caches: 4},
		{Name: "2 sockets, 8 NUMA", Sockets: 2, Nodes: 8, Cores: 32, Threads: 2, Caches: 16},
		{Name: "uneven", Sockets: 2, Nodes: 3, Cores: 7, Threads: 2, Caches: 3},
	}).Draw(t, "shape")
}

func drawOptions(t *rapid.T) CPUOptions {
	return rapid.Custom(func(t *rapid.T) CPUOptions {
		var o CPUOptions
		for _, field := range []*bool{&o.FullCores, &o.DistributeAcrossNUMA, &o.AlignBySocket, &o.DistributeAcrossCores, &o.StrictReservation, &o.AlignByCache} {
			*field = rapid.IntRange(0, 3).Draw(t, "option") == 0
		}
		return o
	}).Filter(func(o CPUOptions) bool { return o.validate() == nil }).Draw(t, "options")
}

func drawPod(t *rapid.T, uid types.UID) *corev1.Pod {
	text := ""
	container := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf("%s:%s", rapid.SampledFrom([]string{"init", "side", "main"}).Draw(t, "kind"),
			rapid.SampledFrom([]string{"1", "2", "3", "4", "6", "9", "16", "500m", "1500m"}).Draw(t, "cpu"))
	})
	for _, c := range rapid.SliceOfN(container, 1, 4).Draw(t, "containers") {
		text += " " + c
	}
	return podOf(uid, text+" main:"+rapid.SampledFrom([]string{"1", "2", "250m"}).Draw(t, "last"))
}

// TestCPUsHoldTheirPromises has pods come and go on machines of any shape.
func TestCPUsHoldTheirPromises(t *testing.T) {
	file := filepath.Join(t.TempDir(), CPUFile)
	rapid.Check(t, func(t *rapid.T) {
		cfg := CPUConfig{
			Policy: Static, Layout: drawShape(t).layoutOf(t), Class: guaranteed, Options: drawOptions(t),
			Reserve: rapid.IntRange(1, 3).Draw(t, "reserve"),
		}
		if cfg.Options.suit(cfg.Layout, topology.Restricted) != nil {
			t.Skip("no machine for these options")
		}
		c, err := NewCPUs(cfg)
		if err != nil {
			t.Fatal(err)
		}
		m := managerOf(t, c)
		pods := map[types.UID]*corev1.Pod{}
		for i := range rapid.IntRange(1, 12).Draw(t, "steps") {
			uid := types.UID(fmt.Sprint("u", i))
			if len(pods) > 0 && rapid.IntRange(0, 2).Draw(t, "what") == 0 {
				gone := rapid.SampledFrom(sortedUIDs(pods)).Draw(t, "gone")
				m.Release(gone)
				delete(pods, gone)
			} else if pod := drawPod(t, uid); m.Admit(t.Context(), pod) == nil {
				pods[uid] = pod
			} else if c.Pins(uid) {
				t.Fatalf("a refused pod has CPUs")
			}
			checkPromises(t, c, pods)
		}
		if err := writeCPUState(file, Static, &c.state); err != nil {
			t.Fatal(err)
		}
		cfg.File = file
		again, err := NewCPUs(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.state.exclusive, again.state.exclusive); diff != "" || !again.state.shared.Equal(c.state.shared) {
			t.Fatalf("read again (-written +read):\n%s", diff)
		}
	})
}

func (s stockShape) layoutOf(t *rapid.T) *Layout {
	var cpus []CPU
	for core := range s.Cores {
		for thread := range s.Threads {
			cpus = append(cpus, CPU{ID: core + thread*s.Cores, Core: core, Socket: core * s.Sockets / s.Cores, Node: core * s.Nodes / s.Cores, Cache: core * s.Caches / s.Cores})
		}
	}
	l, err := NewLayout(cpus)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func managerOf(t *rapid.T, c *CPUs) *topology.Manager {
	var nodes []topology.Node
	for id := range c.cfg.Layout.numa().All() {
		nodes = append(nodes, topology.Node{ID: id})
	}
	machine, err := topology.NewMachine(nodes)
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.New(topology.Config{
		Machine: machine, Providers: []topology.Provider{c},
		Policy: topology.Policy(rapid.IntRange(0, 3).Draw(t, "policy")), //nolint:gosec // small
		Scope:  topology.Scope(rapid.IntRange(0, 1).Draw(t, "scope")),   //nolint:gosec // small
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sortedUIDs(pods map[types.UID]*corev1.Pod) []types.UID {
	var out []types.UID
	for i := range 20 {
		if uid := types.UID(fmt.Sprint("u", i)); pods[uid] != nil {
			out = append(out, uid)
		}
	}
	return out
}

// checkPromises looks at what has to hold at any time.
func checkPromises(t *rapid.T, c *CPUs, pods map[types.UID]*corev1.Pod) {
	if c.Shared().IsEmpty() {
		t.Fatal("nothing is shared")
	}
	whole, taken := c.cfg.Layout.all, CPUSet{}
	for uid, pod := range pods {
		var beside, own CPUSet
		for _, s := range order.Of(pod) {
			cpus, exclusive := c.Of(uid, s.Name)
			if n := wholeCPUs(s.Container); exclusive != (n > 0) || exclusive && cpus.Len() != n {
				t.Fatalf("container %s of %s asks for %d CPUs and has %s, exclusive %v", s.Name, uid, n, cpus, exclusive)
			}
			if !exclusive {
				continue
			}
			if c.cfg.Options.FullCores && !c.cfg.Layout.inWholeCores(cpus).Equal(cpus) {
				t.Fatalf("container %s of %s has parts of cores: %s", s.Name, uid, cpus)
			}
			if both := cpus.Intersect(beside); !both.IsEmpty() {
				t.Fatalf("two containers of %s that run at a time have CPUs %s", uid, both)
			}
			if !s.Ends {
				beside = beside.Union(cpus)
			}
			own = own.Union(cpus)
		}
		if both := own.Intersect(taken); !both.IsEmpty() {
			t.Fatalf("two pods have CPUs %s", both)
		}
		taken = taken.Union(own)
	}
	switch {
	case !taken.Intersect(c.reserved).IsEmpty():
		t.Fatalf("reserved CPUs %s are given away: %s", c.reserved, taken)
	case !taken.Intersect(c.Shared()).IsEmpty():
		t.Fatalf("shared CPUs %s are given away: %s", c.Shared(), taken)
	case !c.cfg.Options.StrictReservation && !taken.Union(c.state.shared).Equal(whole):
		t.Fatalf("CPUs are lost: %s shared, %s given", c.state.shared, taken)
	}
}
