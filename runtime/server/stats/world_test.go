package stats

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/server/stats/cgroupstat"
)

// groups are control groups in memory, which use CPU as time passes.
type groups struct {
	mu sync.Mutex // guards the fields below
	// cores are how many each group keeps busy since began.
	cores map[string]float64
	began time.Time
	reads int
}

func (g *groups) Usage(group string) (cgroupstat.Usage, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cores, ok := g.cores[group]
	if !ok {
		return cgroupstat.Usage{}, fs.ErrNotExist
	}
	g.reads++
	return cgroupstat.Usage{
		Time: time.Now(), CPU: time.Duration(cores * float64(time.Since(g.began))),
		Memory: cgroupstat.Memory{Usage: 3000, WorkingSet: 2000, RSS: 1000, Limit: 10000},
		Swap:   cgroupstat.Swap{Usage: 10, Limit: cgroupstat.Unlimited},
	}, nil
}

func (g *groups) Detail(group string) (cgroupstat.Detail, error) {
	u, err := g.Usage(group)
	return cgroupstat.Detail{Usage: u, Quota: -1, Shares: 2, Processes: 1, Threads: 2, MaxThreads: cgroupstat.Unlimited}, err
}

func (g *groups) Pressure(string) (cgroupstat.Pressure, error) {
	return cgroupstat.Pressure{CPU: &cgroupstat.Stall{Some: cgroupstat.Waiting{Total: time.Second, Avg10: 5}}}, nil
}

func (g *groups) Children(group string) ([]string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for name := range g.cores {
		if path.Dir(name) == group {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

func (g *groups) Processes(group string) ([]int, error) {
	if strings.Contains(group, "sandbox") {
		return nil, nil // it has no process that this machine shows
	}
	return []int{1, 2, 3}, nil
}

// cri is a runtime whose answers can be held up.
type cri struct {
	mu    sync.Mutex // guards the fields below
	calls int
	// hold is waited for before an answer; nil: none is held up.
	hold chan struct{}
	err  error
	list []*runtimeapi.ContainerStats
}

func (c *cri) answer(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
	c.mu.Lock()
	c.calls++
	hold, list, err := c.hold, c.list, c.err
	c.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return list, err
}

func (c *cri) set(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

func (c *cri) ListContainerStats(ctx context.Context, _ *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	return c.answer(ctx)
}

func (c *cri) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	if _, err := c.answer(ctx); err != nil {
		return nil, err
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{
		{Timestamp: time.Now().UnixNano(), UsedBytes: value(500), InodesUsed: value(5)},
	}}, nil
}

func value(n uint64) *runtimeapi.UInt64Value { return &runtimeapi.UInt64Value{Value: n} }

// containerStats are what a runtime tells of a container.
func containerStats(id string, cpu uint64) *runtimeapi.ContainerStats {
	now := time.Now().UnixNano()
	return &runtimeapi.ContainerStats{
		Attributes: &runtimeapi.ContainerAttributes{Id: id},
		Cpu:        &runtimeapi.CpuUsage{Timestamp: now, UsageCoreNanoSeconds: value(cpu)},
		Memory:     &runtimeapi.MemoryUsage{Timestamp: now, WorkingSetBytes: value(700), UsageBytes: value(800)},
		WritableLayer: &runtimeapi.FilesystemUsage{
			Timestamp: now, UsedBytes: value(4096), InodesUsed: value(3), FsId: &runtimeapi.FilesystemIdentifier{Mountpoint: "/"},
		},
	}
}

// world is a Collector in a bubble, with two pods: web has groups, far has none.
type world struct {
	*Collector
	t       *testing.T
	groups  *groups
	cri     *cri
	volumes map[types.UID]func(context.Context) ([]Volume, error)
	logs    string
}

const webGroup = "/kubepods/podweb"

func (w *world) pods() []Pod {
	return []Pod{
		{
			UID: "web", Namespace: "default", Name: "web", Created: time.Unix(100, 0), Sandbox: "sandbox1", SandboxImage: "pause:1", Group: webGroup,
			Logs: w.logs, HasClaims: true, Containers: []Container{{ID: "c1", Name: "main", Image: "img:1", Created: time.Unix(101, 0)}},
		},
		{UID: "far", Namespace: "default", Name: "far", Created: time.Unix(200, 0), Containers: []Container{{ID: "c2", Name: "vm", Created: time.Unix(201, 0)}}},
	}
}

// inWorld runs a test in a bubble, with a Collector that runs.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	logs := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, logs: logs, volumes: map[types.UID]func(context.Context) ([]Volume, error){}}
		w.groups = &groups{began: time.Now(), cores: map[string]float64{
			"/": 1.5, "/kubepods": 1, webGroup: 0.5, webGroup + "/sandbox1": 0, webGroup + "/cri-containerd-c1.scope": 0.25, "/agent": 0.125,
		}}
		w.cri = &cri{list: []*runtimeapi.ContainerStats{containerStats("c1", 0), containerStats("c2", 1e9)}}
		var err error
		w.Collector, err = New(Config{
			Node: "node-a", Pods: w.pods, Groups: w.groups, Runtime: w.cri, Disk: logs,
			Volumes: func(ctx context.Context, uid types.UID) ([]Volume, error) {
				if f := w.volumes[uid]; f != nil {
					return f(ctx)
				}
				return nil, nil
			},
			Machine: func() Machine {
				return Machine{Booted: time.Unix(50, 0), MemoryBytes: 100000, HugePages: 500, SwapBytes: 100, CPUs: 4, Cores: 2, Sockets: 1, BootID: "b", ID: "m", UUID: "u", Kernel: "6.1", OS: "Debian"}
			},
			System: func() []System {
				return []System{{Name: "kubelet", Group: "/agent", Started: time.Unix(60, 0)}, {Name: "runtime", Group: "/none"}}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		test(w)
	})
}

var (
	errDown   = errors.New("the runtime is down")
	errBroken = errors.New("a volume is broken")
)

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}
