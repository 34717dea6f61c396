package logs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"
)

// defaultInterval is the kubelet's containerLogMonitorInterval.
const defaultInterval = 10 * time.Second

// Live is the log of a running container.
type Live struct {
	// ContainerID is what Runtime.ReopenContainerLog is called with.
	ContainerID string
	File        File
}

// Runtime is what a Rotator needs of a container runtime; *runtime.Client has it.
type Runtime interface {
	// ReopenContainerLog makes the runtime write to a new file.
	ReopenContainerLog(ctx context.Context, id string) error
}

// RotatorConfig adjusts a Rotator. The zero value is ready for use.
type RotatorConfig struct {
	Policy Policy
	// Interval is the time between two looks; zero means ten seconds.
	Interval time.Duration
	// Log is told of rotations and of what went wrong with one log. Nil means nobody.
	Log *slog.Logger
}

// Rotator rotates the logs of running containers.
type Rotator struct {
	runtime Runtime
	list    func(context.Context) ([]Live, error)
	cfg     RotatorConfig
}

// NewRotator returns a Rotator of the logs that list returns: those of containers that
// run, since nobody writes to the others.
func NewRotator(rt Runtime, list func(context.Context) ([]Live, error), cfg RotatorConfig) (*Rotator, error) {
	if rt == nil || list == nil {
		return nil, errors.New("logs: NewRotator needs a runtime and a list")
	}
	if cfg.Interval < 0 {
		return nil, fmt.Errorf("logs: RotatorConfig.Interval is %v, want 0 (10s) or more", cfg.Interval)
	}
	if cfg.Interval == 0 {
		cfg.Interval = defaultInterval
	}
	var err error
	if cfg.Policy, err = cfg.Policy.withDefaults(); err != nil {
		return nil, err
	}
	cfg.Log = Options{Log: cfg.Log}.logger()
	return &Rotator{runtime: rt, list: list, cfg: cfg}, nil
}

// Run rotates until ctx ends, and returns nil then. A log that cannot be rotated keeps
// no other from being rotated; it is tried again at the next look.
func (r *Rotator) Run(ctx context.Context) error {
	for {
		r.once(ctx)
		if sleep(ctx, r.cfg.Interval) != nil {
			return nil
		}
	}
}

func (r *Rotator) once(ctx context.Context) {
	all, err := r.list(ctx)
	if err != nil {
		r.cfg.Log.WarnContext(ctx, "list logs to rotate", "error", err)
		return
	}
	look := looker{limit: r.cfg.Policy.MaxSize}
	defer look.close()
	for _, l := range all {
		if ctx.Err() != nil {
			return
		}
		if look.small(l.File) {
			continue
		}
		rotated, err := Rotate(ctx, l.File, r.cfg.Policy, func(ctx context.Context) error {
			return r.runtime.ReopenContainerLog(ctx, l.ContainerID)
		})
		switch {
		case err != nil:
			r.cfg.Log.WarnContext(ctx, "log was not rotated", "container", l.ContainerID, "error", err)
		case rotated:
			r.cfg.Log.InfoContext(ctx, "log rotated", "container", l.ContainerID, "log", l.File.String())
		}
	}
}

// looker finds the logs for which there is nothing to do, as for nearly all of them. The
// logs of a node have one root: it is opened once for all of them.
type looker struct {
	limit int64 // in bytes
	root  *os.File
}

// small reports whether a log is known to be no larger than the limit.
func (k *looker) small(f File) bool {
	if f.validate() != nil {
		return false
	}
	if k.root == nil || k.root.Name() != f.Root {
		k.close()
		var err error
		if k.root, err = os.Open(f.Root); err != nil {
			k.root = nil
			return false
		}
	}
	info, err := infoBeneath(k.root, f.Path)
	return err == nil && info.regular && info.size <= k.limit
}

func (k *looker) close() {
	if k.root != nil {
		k.root.Close()
	}
}
