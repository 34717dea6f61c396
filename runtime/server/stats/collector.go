package stats

import (
	"context"
	"errors"
	"hash/fnv"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Collector tells what is used. Make one with New.
type Collector struct {
	cfg  Config
	back background
	// turn is held by who reads groups.
	turn chan struct{}
	// usages and details are what was read last.
	usages  atomic.Pointer[round]
	details atomic.Pointer[detailRound]
	// places are the groups of sandboxes and containers, by ID; guarded by turn.
	places map[string]string

	runtime slot[runtimeAnswer]
	images  slot[imageAnswer]
	disks   slot[diskAnswer]
	gate    gate

	mu sync.Mutex // guards volumes
	// volumes has those of each pod.
	volumes map[types.UID]*slot[[]Volume]
}

// runtimeAnswer is what the runtime said of containers, by ID, and of the file systems that
// they write to, by mount point.
type runtimeAnswer struct {
	containers map[string]*runtimeapi.ContainerStats
	disks      map[string]fileSystem
}

// imageAnswer is what the runtime said of where images and layers are kept.
type imageAnswer struct{ images, containers *storage }

// storage is what images or layers take up, and their file system.
type storage struct {
	at time.Time
	taken
	fileSystem
}

// diskAnswer is the file system of the node, and what the logs of containers take, by ID.
type diskAnswer struct {
	at   time.Time
	node fileSystem
	logs map[string]taken
}

// New returns a Collector. It reads nothing yet.
func New(cfg Config) (*Collector, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	return &Collector{
		cfg: cfg, turn: make(chan struct{}, 1), places: map[string]string{},
		gate: gate{places: make(chan struct{}, gateWidth)}, volumes: map[types.UID]*slot[[]Volume]{},
	}, nil
}

// Run lets slow sources be asked, until ctx ends. Without it only control groups are read.
// It waits for questions that are out, but not for file systems that hang.
func (c *Collector) Run(ctx context.Context) error {
	c.back.run(ctx)
	return nil
}

// askRuntime asks the runtime about containers, unless it has just said.
func (c *Collector) askRuntime() {
	if c.cfg.Runtime == nil {
		return
	}
	c.runtime.refresh(&c.back, c.cfg.Ages.Usage, func(ctx context.Context) (runtimeAnswer, error) {
		list, err := c.cfg.Runtime.ListContainerStats(ctx, nil)
		if err != nil {
			c.cfg.Log.Warn("container runtime does not tell what containers use; what it said last is told again", "err", err)
			return runtimeAnswer{}, err
		}
		a := runtimeAnswer{containers: make(map[string]*runtimeapi.ContainerStats, len(list)), disks: map[string]fileSystem{}}
		for _, s := range list {
			a.containers[s.GetAttributes().GetId()] = s
			point := s.GetWritableLayer().GetFsId().GetMountpoint()
			if _, known := a.disks[point]; point != "" && !known {
				a.disks[point] = c.measure(point)
			}
		}
		return a, nil
	})
}

// askImages asks the runtime about the file systems of images.
func (c *Collector) askImages() {
	if c.cfg.Runtime == nil {
		return
	}
	c.images.refresh(&c.back, c.cfg.Ages.Usage, func(ctx context.Context) (imageAnswer, error) {
		resp, err := c.cfg.Runtime.ImageFsInfo(ctx)
		if err != nil {
			c.cfg.Log.Warn("container runtime does not tell what images take up; what it said last is told again", "err", err)
			return imageAnswer{}, err
		}
		first := func(list []*runtimeapi.FilesystemUsage) *storage {
			for _, f := range list {
				return &storage{
					at:         time.Unix(0, f.GetTimestamp()),
					taken:      taken{bytes: f.GetUsedBytes().GetValue(), inodes: f.GetInodesUsed().GetValue()},
					fileSystem: c.measure(f.GetFsId().GetMountpoint()),
				}
			}
			return nil
		}
		a := imageAnswer{images: first(resp.GetImageFilesystems()), containers: first(resp.GetContainerFilesystems())}
		if a.containers == nil {
			a.containers = a.images // a runtime that does not split them
		}
		return a, nil
	})
}

// askDisks measures the node's file system and logs.
func (c *Collector) askDisks() {
	c.disks.refresh(&c.back, c.cfg.Ages.Usage, func(ctx context.Context) (diskAnswer, error) {
		a := diskAnswer{at: time.Now(), node: c.measure(c.cfg.Disk), logs: map[string]taken{}}
		for _, p := range c.cfg.Pods() {
			for i := range p.Containers {
				if p.Logs == "" || ctx.Err() != nil {
					break
				}
				t, err := takenBy(p.Logs, p.Containers[i].Name)
				switch {
				case err == nil:
					a.logs[p.Containers[i].ID] = t
				case !errors.Is(err, fs.ErrNotExist):
					c.cfg.Log.Warn("logs of a container could not be measured", "pod", p.Namespace+"/"+p.Name, "uid", string(p.UID), "container", p.Containers[i].Name, "err", err)
				}
			}
		}
		return a, ctx.Err()
	})
}

// measure measures a file system; one that can't be is empty.
func (c *Collector) measure(dir string) fileSystem {
	if dir == "" {
		return fileSystem{}
	}
	f, err := measure(dir)
	if err != nil {
		c.cfg.Log.Warn("file system could not be measured", "dir", dir, "err", err)
	}
	return f
}

// askVolumes measures the volumes of pods that are wanted, and forgets those of pods that
// are gone.
func (c *Collector) askVolumes(pods []Pod, wanted func(*Pod) bool) map[types.UID]*slot[[]Volume] {
	if c.cfg.Volumes == nil || c.cfg.Ages.Volumes < 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make(map[types.UID]*slot[[]Volume], len(pods))
	for i := range pods {
		uid := pods[i].UID
		s := c.volumes[uid]
		if s == nil {
			s = &slot[[]Volume]{}
		}
		next[uid] = s
		if wanted(&pods[i]) {
			s.refresh(&c.back, spread(c.cfg.Ages.Volumes, uid), func(ctx context.Context) ([]Volume, error) { return c.measureVolumes(ctx, uid) })
		}
	}
	c.volumes = next
	return next
}

func every(*Pod) bool { return true }

// measureVolumes measures those of one pod, with few others at the same time. Volumes that
// could not be measured are left out: they are not worth that the others are measured
// again at once.
func (c *Collector) measureVolumes(ctx context.Context, uid types.UID) ([]Volume, error) {
	var list []Volume
	err := context.Canceled
	c.gate.pass(ctx, func() { list, err = c.cfg.Volumes(ctx, uid) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		c.cfg.Log.Warn("volumes of a pod could not be measured", "uid", string(uid), "measured", len(list), "err", err)
	}
	return list, nil
}

// spread returns one to two times an age, by the pod, so that not all are measured at
// once; as kubelets do.
func spread(age time.Duration, uid types.UID) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // never fails
	return age + time.Duration(float64(age)*float64(h.Sum32())/(1<<32))
}
