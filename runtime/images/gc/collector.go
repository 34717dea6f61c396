package gc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// defaultInterval is how often the kubelet collects images.
const defaultInterval = 5 * time.Minute

// Config says how a Collector works. The zero value is ready for use and collects as the
// kubelet does by default.
type Config struct {
	// Policy says when images go; zero means DefaultPolicy.
	Policy Policy
	// Interval is the time between two passes of Run; zero means five minutes.
	Interval time.Duration
	// Keep are names and ids of images that stay, such as that of sandboxes where the
	// runtime does not pin it (containerd before 1.7).
	Keep []string
	// Given returns ids of images that pods were given lately and when; those of the last
	// two minutes stay, as a container may be about to start. Manager.Given of package
	// images is one. Nil means that there are none.
	Given func() map[string]time.Time
	// Usage returns the usage of the file system that holds a path; nil asks the
	// operating system.
	Usage func(path string) (Usage, error)
	// Hooks are told what happens.
	Hooks Hooks
	// Log gets what happens in Run; nil: nothing is logged.
	Log *slog.Logger
}

// Hooks are told what happens in a Collector. Any of them may be nil. They must not
// block.
type Hooks struct {
	// Event gets what the owner of the node wants to know.
	Event func(e Event)
	// Removed is called for each image that is gone.
	Removed func(r Removal)
	// Collected is called after a pass that removed images, with the ids of those that
	// are left and when they were listed. Records of pulls of other images can go.
	Collected func(ids []string, listed time.Time)
}

// Event is a Warning event about the node. Reasons and messages are the kubelet's.
type Event struct {
	Reason  string
	Message string
}

// The reasons of events.
const (
	ReasonFailed      = "ImageGCFailed"
	ReasonNoSpace     = "FreeDiskSpaceFailed"
	ReasonBadCapacity = "InvalidDiskCapacity"
)

func (c *Config) validate() error {
	if c.Interval < 0 {
		return fmt.Errorf("Config.Interval is %s, want 0 (%s) or more", c.Interval, defaultInterval)
	}
	return c.Policy.validate()
}

// Collector removes images that nobody uses.
type Collector struct {
	runtime Runtime
	cfg     Config
	log     *slog.Logger
	keep    []string
	started time.Time

	// pass is held for a whole pass, with its calls to the runtime: passes must not
	// overlap. It guards seen.
	pass sync.Mutex
	seen inventory
}

// New returns a Collector for the images of a runtime. It does nothing yet, but the time
// of the call counts as that of the agent's start.
func New(rt Runtime, cfg Config) (*Collector, error) {
	if rt == nil {
		return nil, errors.New("gc: the runtime is nil")
	}
	if cfg.Policy == (Policy{}) {
		cfg.Policy = DefaultPolicy()
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("gc: %w", err)
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	if cfg.Usage == nil {
		cfg.Usage = usageOf
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Collector{runtime: rt, cfg: cfg, log: cfg.Log, keep: fullNames(cfg.Keep), started: time.Now()}, nil
}

// Run makes a pass at once and then at each interval until ctx ends; it then returns nil.
// Failures are logged; from the second in a row on they are events too.
func (c *Collector) Run(ctx context.Context) error {
	tick := time.NewTicker(c.cfg.Interval)
	defer tick.Stop()
	for failures := 0; ; {
		result, err := c.Collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			failures++
			c.log.Error("image collection failed", "freed", result.Freed, "err", err)
			if failures > 1 {
				c.event(ReasonFailed, err.Error())
			}
		default:
			failures = 0
			if len(result.Removed) > 0 {
				c.log.Info("collected images", "removed", len(result.Removed), "freed", result.Freed)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Result is what a pass did.
type Result struct {
	Removed []Removal
	// Freed is the sum of the sizes of what was removed, in bytes. Images share layers,
	// so that less may have come free.
	Freed uint64
}

// SpaceError says that the file system is too full and images cannot change that.
type SpaceError struct {
	Usage Usage
	// Freed and Target are how many bytes were freed and how many had to be.
	Freed  uint64
	Target uint64
}

// Error returns the message of the kubelet's event.
func (e *SpaceError) Error() string {
	return fmt.Sprintf("Insufficient free disk space on the node's image filesystem (%d%% of %s used). "+
		"Failed to free sufficient space by deleting unused images (freed %d bytes). "+
		"Investigate disk usage, as it could be used by active images, logs, volumes, or other data.",
		e.Usage.Percent(), formatSize(e.Usage.Capacity), e.Freed)
}

// ErrNoCapacity says that the file system of images has no size.
var ErrNoCapacity = errors.New("invalid capacity 0 on image filesystem")

// Collect makes one pass. It keeps everything unless it knows for sure what is used: an
// error of the runtime ends it. Images that cannot be removed are in the error, and others
// go in their place. If there is not enough to remove the error is a *SpaceError.
func (c *Collector) Collect(ctx context.Context) (Result, error) {
	c.pass.Lock()
	defer c.pass.Unlock()
	listed := time.Now()
	images, err := c.look(ctx, listed)
	if err != nil {
		return Result{}, fmt.Errorf("collect images: %w", err)
	}
	var usage Usage
	if c.cfg.Policy.HighPercent != never {
		if usage, err = c.usage(ctx); err != nil {
			return Result{}, fmt.Errorf("collect images: %w", err)
		}
	}
	decide := func(images []Image) Decision {
		return Decide(images, usage, c.cfg.Policy, Times{Now: listed, Started: c.started})
	}
	return c.finish(ctx, images, usage, decide)
}

// RemoveUnused removes every image that may go at all, whatever the usage: what to do
// when something else needs the room.
func (c *Collector) RemoveUnused(ctx context.Context) (Result, error) {
	c.pass.Lock()
	defer c.pass.Unlock()
	now := time.Now()
	images, err := c.look(ctx, now)
	if err != nil {
		return Result{}, fmt.Errorf("remove unused images: %w", err)
	}
	decide := func(images []Image) Decision { return Unused(images, c.cfg.Policy, now) }
	return c.finish(ctx, images, Usage{}, decide)
}

// finish carries a decision out and tells about it.
func (c *Collector) finish(ctx context.Context, images []Image, usage Usage, decide func([]Image) Decision) (Result, error) {
	target := decide(images).Target
	result, err := c.apply(ctx, images, decide)
	if len(result.Removed) > 0 {
		err = errors.Join(err, c.tellCollected(ctx))
	}
	if err == nil && result.Freed < target {
		short := &SpaceError{Usage: usage, Freed: result.Freed, Target: target}
		c.event(ReasonNoSpace, short.Error())
		return result, short
	}
	return result, err
}

// apply removes images until the decision is carried out. An image that cannot be removed, or
// that a pod was given since the pass began, stays, and what is left is decided anew without
// it.
func (c *Collector) apply(ctx context.Context, images []Image, decide func([]Image) Decision) (Result, error) {
	var result Result
	var errs []error
	stays := make(map[string]bool)
	removed := make(map[string]bool)
	for again := true; again; {
		again = false
		left := make([]Image, len(images))
		for i, image := range images {
			image.Kept = image.Kept || stays[image.ID]
			left[i] = image
		}
		for _, r := range decide(left).Removals {
			if removed[r.Image.ID] {
				continue
			}
			if err := ctx.Err(); err != nil {
				return result, errors.Join(append(errs, err)...)
			}
			if c.givenLately(r.Image.ID) {
				stays[r.Image.ID], again = true, true
				continue
			}
			if err := c.runtime.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: r.Image.ID}); err != nil {
				errs = append(errs, fmt.Errorf("remove image %s: %w", r.Image.ID, err))
				stays[r.Image.ID], again = true, true
				continue
			}
			removed[r.Image.ID] = true
			c.removed(&result, r)
		}
	}
	return result, errors.Join(errs...)
}

// givenLately reports whether a pod was given an image so lately that its container may be
// about to start. A pass can take minutes, so that this is asked before each removal.
func (c *Collector) givenLately(id string) bool {
	if c.cfg.Given == nil {
		return false
	}
	at, ok := c.cfg.Given()[id]
	return ok && time.Since(at) < startGrace
}

func (c *Collector) removed(result *Result, r Removal) {
	c.seen.forget(r.Image.ID)
	result.Removed = append(result.Removed, r)
	result.Freed = add(result.Freed, r.Image.Size)
	if c.cfg.Hooks.Removed != nil {
		c.cfg.Hooks.Removed(r)
	}
}

func (c *Collector) tellCollected(ctx context.Context) error {
	if c.cfg.Hooks.Collected == nil {
		return nil
	}
	listed := time.Now()
	list, err := c.runtime.ListImages(ctx, nil)
	if err != nil {
		return fmt.Errorf("list images: %w", err)
	}
	ids := make([]string, len(list))
	for i, image := range list {
		ids[i] = image.GetId()
	}
	c.cfg.Hooks.Collected(ids, listed)
	return nil
}

// usage returns the usage of the first file system that the runtime names.
func (c *Collector) usage(ctx context.Context) (Usage, error) {
	info, err := c.runtime.ImageFsInfo(ctx)
	if err != nil {
		return Usage{}, fmt.Errorf("find the file system of images: %w", err)
	}
	systems := info.GetImageFilesystems()
	if len(systems) == 0 || systems[0].GetFsId().GetMountpoint() == "" {
		return Usage{}, errors.New("find the file system of images: the runtime names none")
	}
	usage, err := c.cfg.Usage(systems[0].GetFsId().GetMountpoint())
	if err != nil {
		return Usage{}, err
	}
	if usage.Capacity == 0 {
		c.event(ReasonBadCapacity, ErrNoCapacity.Error())
		return Usage{}, ErrNoCapacity
	}
	return usage, nil
}

func (c *Collector) event(reason, message string) {
	if c.cfg.Hooks.Event != nil {
		c.cfg.Hooks.Event(Event{Reason: reason, Message: message})
	}
}

// formatSize writes a size with one decimal and a binary unit, as the kubelet does.
func formatSize(size uint64) string {
	units := []string{"KiB", "MiB", "GiB"}
	if size < 1024 {
		return fmt.Sprintf("%d B", size)
	}
	value := float64(size) / 1024
	for _, unit := range units {
		if value < 1024 {
			return fmt.Sprintf("%.1f %s", value, unit)
		}
		value /= 1024
	}
	return fmt.Sprintf("%.1f TiB", value)
}
