package gc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images/gc"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

var _ gc.Runtime = (*runtime.Client)(nil)

// world is a Collector on a runtime whose images share a disk with other things.
type world struct {
	testing.TB
	server    *runtimetest.Server
	client    *runtime.Client
	collector *gc.Collector
	// capacity of the disk, and what others use of it.
	capacity, others uint64
	events           []string
	collected        []string
	removed          []gc.Removal
}

func newWorld(tb testing.TB, cfg gc.Config, images ...runtimetest.Image) *world {
	tb.Helper()
	w := &world{TB: tb, capacity: 100}
	w.server = runtimetest.Start(tb, runtimetest.Config{Images: images})
	w.client = w.server.Client(tb)
	if cfg.Usage == nil {
		cfg.Usage = w.usage
	}
	cfg.Hooks.Event = func(e gc.Event) { w.events = append(w.events, e.Reason+": "+e.Message) }
	cfg.Hooks.Collected = func(ids []string, _ time.Time) { w.collected = append(w.collected, fmt.Sprint(len(ids))) }
	cfg.Hooks.Removed = func(r gc.Removal) { w.removed = append(w.removed, r) }
	c, err := gc.New(w.client, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	w.collector = c
	return w
}

func (w *world) usage(path string) (gc.Usage, error) {
	if path != "/var/lib/runtimetest" {
		w.Errorf("usage of %s was asked for", path)
	}
	used := w.others
	for _, i := range w.list() {
		used += i.GetSize()
	}
	return gc.Usage{Capacity: w.capacity, Available: w.capacity - min(used, w.capacity)}, nil
}

func (w *world) list() []*runtimeapi.Image {
	w.Helper()
	list, err := w.client.ListImages(context.WithoutCancel(w.Context()), nil)
	if err != nil {
		w.Fatal(err)
	}
	return list
}

// names are those of the images that are there, in their short form.
func (w *world) names() string {
	w.Helper()
	var names []string
	for _, i := range w.list() {
		names = append(names, strings.TrimSuffix(strings.TrimPrefix(i.GetRepoTags()[0], "docker.io/library/"), ":1"))
	}
	return strings.Join(names, " ")
}

func (w *world) wantNames(want string) {
	w.Helper()
	if got := w.names(); got != want {
		w.Errorf("images are %q, want %q", got, want)
	}
}

// container makes a container of an image, with an exit at once.
func (w *world) container(name, image string) string {
	w.Helper()
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: name, Namespace: "ns", Uid: "uid-" + name}}
	sandboxID, err := w.client.RunPodSandbox(w.Context(), sandbox, "")
	if err != nil {
		w.Fatal(err)
	}
	id, err := w.client.CreateContainer(w.Context(), sandboxID, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"}, Image: &runtimeapi.ImageSpec{Image: image},
	}, sandbox)
	if err != nil {
		w.Fatal(err)
	}
	return id
}

func (w *world) collect() (gc.Result, error) {
	w.Helper()
	return w.collector.Collect(w.Context())
}

func (w *world) mustCollect() {
	w.Helper()
	if _, err := w.collect(); err != nil {
		w.Fatal(err)
	}
}

func image(name string, size uint64) runtimetest.Image {
	return runtimetest.Image{Name: name + ":1", Size: size}
}

func elapse(d time.Duration) { <-time.After(d) }

func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10), image("b", 10), image("c", 10), image("d", 10))
		w.container("p", "b:1")
		w.mustCollect()
		elapse(5 * time.Minute)
		w.others = 60
		id := w.container("q", "a:1")
		w.mustCollect() // a and b are used, c and d were never
		w.wantNames("a b")
		if err := w.client.RemoveContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		elapse(5 * time.Minute)
		w.mustCollect()
		w.wantNames("a b") // there is room
		w.others = 70
		result, err := w.collect()
		if err != nil || result.Freed != 10 || len(result.Removed) != 1 || result.Removed[0].Reason != gc.Space {
			t.Errorf("result is %+v, %v, want a removed for space", result, err)
		}
		if n := len(w.removed); n != 3 || w.removed[2] != result.Removed[0] {
			t.Errorf("removals were told as %+v, want 3", w.removed)
		}
		w.wantNames("b")
		if got := strings.Join(w.collected, " "); got != "2 1" {
			t.Errorf("images left were told as %q, want 2 1", got)
		}
	})
}

func TestNothingToRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10), image("b", 5))
		w.container("p", "a:1")
		w.mustCollect()
		elapse(5 * time.Minute)
		w.others = 90
		result, err := w.collect()
		short, ok := errors.AsType[*gc.SpaceError](err)
		if !ok || short.Target != 20 || short.Freed != 5 || result.Freed != 5 {
			t.Errorf("error is %v after %+v, want 5 of 20 bytes", err, result)
		}
		const want = "FreeDiskSpaceFailed: Insufficient free disk space on the node's image filesystem (100% of 100 B used). " +
			"Failed to free sufficient space by deleting unused images (freed 5 bytes). " +
			"Investigate disk usage, as it could be used by active images, logs, volumes, or other data."
		if got := strings.Join(w.events, "\n"); got != want {
			t.Errorf("events are %s, want %s", got, want)
		}
	})
}

func TestWhatStays(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  gc.Config
		prep func(w *world)
		// goes says that it does not stay.
		goes bool
	}{
		{name: "nothing keeps it", goes: true},
		{name: "running", prep: func(w *world) {
			if err := w.client.StartContainer(w.Context(), w.container("p", "x:1")); err != nil {
				w.Fatal(err)
			}
		}},
		{name: "exited", prep: func(w *world) {
			w.server.SetLives("app", runtimetest.Exits(0, 0))
			if err := w.client.StartContainer(w.Context(), w.container("p", "x:1")); err != nil {
				w.Fatal(err)
			}
		}},
		{name: "used as a volume", prep: func(w *world) {
			w.container("p", "used:1")
			w.server.Inject("ContainerStatus", runtimetest.Fault{Edit: func(m proto.Message) {
				resp, ok := m.(*runtimeapi.ContainerStatusResponse)
				if !ok {
					w.Fatalf("answer is a %T", m)
				}
				resp.Status.Mounts = []*runtimeapi.Mount{{Image: &runtimeapi.ImageSpec{Image: "docker.io/library/x:1"}}}
			}})
		}},
		{name: "pinned", prep: func(w *world) {
			w.server.Inject("ListImages", runtimetest.Fault{Edit: func(m proto.Message) {
				resp, ok := m.(*runtimeapi.ListImagesResponse)
				if !ok {
					w.Fatalf("answer is a %T", m)
				}
				for _, i := range resp.GetImages() {
					i.Pinned = i.GetRepoTags()[0] == "docker.io/library/x:1"
				}
			}})
		}},
		{name: "known to the container by its tag only", prep: func(w *world) {
			w.container("p", "x:1")
			w.server.Inject("ListContainers", runtimetest.Fault{Edit: func(m proto.Message) {
				resp, ok := m.(*runtimeapi.ListContainersResponse)
				if !ok {
					w.Fatalf("answer is a %T", m)
				}
				for _, one := range resp.GetContainers() {
					if !strings.HasSuffix(one.GetImage().GetImage(), "x:1") {
						continue
					}
					one.Image, one.ImageId, one.ImageRef = &runtimeapi.ImageSpec{Image: "docker.io/library/x:1"}, "", ""
				}
			}})
		}},
		{name: "on the list", cfg: gc.Config{Keep: []string{"docker.io/library/x:1"}}},
		{name: "on the list by its short name", cfg: gc.Config{Keep: []string{"x:1"}}},
		{name: "another one is on the list", cfg: gc.Config{Keep: []string{"x:2"}}, goes: true},
		{name: "new", cfg: gc.Config{Policy: gc.Policy{HighPercent: 85, LowPercent: 80, MinAge: time.Hour}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.cfg, image("x", 10), image("used", 10))
				w.container("user", "used:1")
				w.mustCollect()
				elapse(10 * time.Minute)
				w.others = 85
				if c.prep != nil {
					c.prep(w)
				}
				_, err := w.collect()
				if short, ok := errors.AsType[*gc.SpaceError](err); !ok || (short.Freed == 0) == c.goes {
					t.Errorf("error is %v, want that nothing can be removed: %v", err, !c.goes)
				}
				if _, err := w.collector.RemoveUnused(t.Context()); err != nil {
					t.Error(err)
				}
				w.server.ClearFaults()
				want := "used x"
				if c.goes {
					want = "used"
				}
				w.wantNames(want)
			})
		})
	}
}

// A container that is about to start must find its image.
func TestImageThatWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := map[string]time.Time{}
		w := newWorld(t, gc.Config{Given: func() map[string]time.Time { return given }}, image("x", 10))
		w.mustCollect()
		elapse(time.Hour)
		w.others = 75
		given[w.list()[0].GetId()] = time.Now()
		for range 2 {
			if _, err := w.collect(); err == nil {
				t.Error("the disk is full and there is no error")
			}
			w.wantNames("x")
			elapse(time.Minute)
		}
		w.mustCollect()
		w.wantNames("")
	})
}

// A pod may be given an image while others are removed, which takes a while.
func TestImageThatIsGivenDuringThePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		given := map[string]time.Time{}
		w := newWorld(t, gc.Config{Given: func() map[string]time.Time { return given }}, image("a", 10), image("b", 10), image("c", 10))
		w.mustCollect()
		elapse(time.Hour)
		w.others = 70 // two images have to go
		var ids []string
		for _, i := range w.list() {
			ids = append(ids, i.GetId())
		}
		slices.Sort(ids) // in this order they go
		w.server.Inject("RemoveImage", runtimetest.Fault{Edit: func(proto.Message) { given[ids[1]] = time.Now() }})
		result, err := w.collect()
		if err != nil || result.Freed != 20 {
			t.Errorf("result is %+v, %v, want that another one goes in its place", result, err)
		}
		if left := w.list(); len(left) != 1 || left[0].GetId() != ids[1] {
			t.Errorf("images left are %v, want the one that was given", left)
		}
	})
}

// With a threshold of 100 % the disk is not even looked at.
func TestCollectionForSpaceIsOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{
			Policy: gc.Policy{HighPercent: 100, LowPercent: 80},
			Usage:  func(string) (gc.Usage, error) { return gc.Usage{}, errors.New("it is not there") },
		}, image("a", 10))
		w.mustCollect()
		elapse(time.Hour)
		w.mustCollect()
		w.wantNames("a")
		if len(w.events) != 0 {
			t.Errorf("events are %q, want none", w.events)
		}
		if _, err := w.collector.RemoveUnused(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantNames("")
	})
}

func TestMaxAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{Policy: gc.Policy{HighPercent: 85, LowPercent: 80, MaxAge: time.Hour}}, image("a", 1), image("b", 1))
		id := w.container("p", "a:1")
		for range 13 {
			w.mustCollect()
			w.wantNames("a b")
			elapse(5 * time.Minute)
		}
		w.mustCollect()
		w.wantNames("a")
		if err := w.client.RemoveContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		for range 13 {
			w.mustCollect()
			w.wantNames("a")
			elapse(5 * time.Minute)
		}
		w.mustCollect()
		w.wantNames("")
	})
}

// Without knowing what is used nothing goes.
func TestRuntimeThatFails(t *testing.T) {
	for _, rpc := range []string{"ListImages", "ListContainers", "ContainerStatus", "ImageFsInfo"} {
		t.Run(rpc, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, gc.Config{}, image("a", 10), image("b", 90))
				w.container("p", "b:1")
				w.server.Inject(rpc, runtimetest.Fault{Times: 1, Err: status.Error(codes.Unknown, "boom")})
				elapse(time.Hour)
				if _, err := w.collect(); err == nil || !strings.Contains(err.Error(), "boom") {
					t.Errorf("error is %v, want the runtime's", err)
				}
				if changes := w.server.Calls("RemoveImage"); len(changes) != 0 {
					t.Errorf("%v was called", changes)
				}
			})
		})
	}
}

// A container that goes away between two questions is no error.
func TestContainerThatGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10))
		w.container("p", "a:1")
		w.server.Inject("ContainerStatus", runtimetest.Fault{Err: status.Error(codes.NotFound, "gone")})
		w.mustCollect()
	})
}

func TestContainersAreAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10))
		w.container("p", "a:1")
		w.mustCollect()
		w.container("q", "a:1")
		w.mustCollect()
		w.mustCollect()
		if n := len(w.server.Calls("ContainerStatus")); n != 2 {
			t.Errorf("%d containers were asked, want 2", n)
		}
	})
}

// An image that cannot be removed does not keep others from going in its place, and
// nothing is removed twice.
func TestImageThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10), image("b", 10), image("c", 10), image("d", 10))
		w.mustCollect()
		elapse(5 * time.Minute)
		w.others = 60 // two images have to go
		var ids []string
		for _, i := range w.list() {
			ids = append(ids, i.GetId())
		}
		slices.Sort(ids) // in this order they go
		second := func(req proto.Message) bool {
			r, ok := req.(*runtimeapi.RemoveImageRequest)
			return ok && r.GetImage().GetImage() == ids[1]
		}
		w.server.Inject("RemoveImage", runtimetest.Fault{Match: second, Err: status.Error(codes.Unknown, "read-only file system")})
		result, err := w.collect()
		if err == nil || !strings.Contains(err.Error(), "read-only file system") || result.Freed != 20 {
			t.Errorf("result is %+v, %v, want 20 bytes and the error", result, err)
		}
		if calls := len(w.server.Calls("RemoveImage")); len(w.list()) != 2 || calls != 3 {
			t.Errorf("%d images are left after %d removals, want 2 after 3", len(w.list()), calls)
		}
	})
}

// An image that comes back is new.
func TestImageThatComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10))
		w.mustCollect()
		elapse(5 * time.Minute)
		for range 2 {
			w.others = 75
			if _, err := w.collect(); err != nil {
				t.Error(err)
			}
			w.wantNames("")
			w.server.SetImage(image("a", 10))
			if _, err := w.collect(); err == nil {
				t.Error("the disk is full and there is no error")
			}
			w.wantNames("a")
			elapse(2 * time.Minute)
		}
	})
}

func TestRemoveUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10), image("b", 10))
		w.container("p", "a:1")
		if _, err := w.collector.RemoveUnused(t.Context()); err != nil {
			t.Error(err)
		}
		w.wantNames("a b") // b is new
		elapse(2 * time.Minute)
		result, err := w.collector.RemoveUnused(t.Context())
		if err != nil || result.Freed != 10 {
			t.Errorf("result is %+v, %v, want 10 bytes", result, err)
		}
		w.wantNames("a")
	})
}

func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gc.Config{}, image("a", 10), image("b", 10))
		w.others = 67
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.collector.Run(ctx) }()
		synctest.Wait()
		w.wantNames("a b")
		elapse(5*time.Minute + time.Second)
		if n := len(w.list()); n != 1 {
			t.Errorf("%d images are left, want 1", n)
		}
		w.server.Inject("ListImages", runtimetest.Fault{Times: 3, Err: status.Error(codes.Unknown, "boom")})
		elapse(20 * time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run ends with %v, want nil", err)
		}
		want := "ImageGCFailed: collect images: list images: ListImages: Unknown: boom"
		if got := strings.Join(w.events, "\n"); !strings.HasSuffix(got, want+"\n"+want) || strings.Count(got, "boom") != 2 {
			t.Errorf("events are\n%s\nwant, at the end and twice, %s", got, want)
		}
	})
}

func TestFileSystems(t *testing.T) {
	for _, c := range []struct {
		name      string
		usage     gc.Usage
		edit      func(*runtimeapi.ImageFsInfoResponse)
		want      string
		wantEvent string
	}{
		{name: "no size", want: "invalid capacity 0", wantEvent: "InvalidDiskCapacity: invalid capacity 0 on image filesystem"},
		{name: "none", usage: gc.Usage{Capacity: 1}, edit: func(r *runtimeapi.ImageFsInfoResponse) { r.ImageFilesystems = nil }, want: "names none"},
		{name: "nowhere", usage: gc.Usage{Capacity: 1}, edit: func(r *runtimeapi.ImageFsInfoResponse) { r.ImageFilesystems[0].FsId = nil }, want: "names none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, gc.Config{Usage: func(string) (gc.Usage, error) { return c.usage, nil }})
				if c.edit != nil {
					w.server.Inject("ImageFsInfo", runtimetest.Fault{Edit: func(m proto.Message) {
						resp, ok := m.(*runtimeapi.ImageFsInfoResponse)
						if !ok {
							t.Fatalf("answer is a %T", m)
						}
						c.edit(resp)
					}})
				}
				if _, err := w.collect(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("error is %v, want %q", err, c.want)
				}
				if got := strings.Join(w.events, "\n"); got != c.wantEvent {
					t.Errorf("events are %q, want %q", got, c.wantEvent)
				}
			})
		})
	}
}

// Without Config.Usage the operating system is asked.
func TestUsageOfTheSystem(t *testing.T) {
	s := runtimetest.Start(t, runtimetest.Config{})
	dir := t.TempDir()
	s.Inject("ImageFsInfo", runtimetest.Fault{Edit: func(m proto.Message) {
		resp, ok := m.(*runtimeapi.ImageFsInfoResponse)
		if !ok {
			t.Fatalf("answer is a %T", m)
		}
		resp.ImageFilesystems[0].FsId.Mountpoint = dir
	}})
	c, err := gc.New(s.Client(t), gc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Collect(t.Context())
	if _, full := errors.AsType[*gc.SpaceError](err); err != nil && !full {
		t.Error(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Collect(t.Context()); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("error is %v, want one about %s", err, dir)
	}
}

func TestBadConfigs(t *testing.T) {
	s := runtimetest.Start(t, runtimetest.Config{})
	for _, cfg := range []gc.Config{{Interval: -1}, {Policy: gc.Policy{LowPercent: 2, HighPercent: 1}}} {
		if _, err := gc.New(s.Client(t), cfg); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
	if _, err := gc.New(nil, gc.Config{}); err == nil {
		t.Error("no runtime is accepted")
	}
}
