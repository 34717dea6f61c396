package capacity

import (
	"context"
	"log/slog"
	"time"
)

// defaultPeriod is that of the kubelet's nodeStatusUpdateFrequency
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1).
const defaultPeriod = 10 * time.Second

// Watch reads the machine until ctx ends, and reports the first reading, and each
// one that differs from the one before with what changed. CPUs and memory can come
// and go, huge pages be taken and given back, filesystems grow.
//
// It returns nil at the end of ctx, and the error of the first reading if that
// fails. A later failure is logged and tried again. The calls of report are one
// after the other, in the goroutine of the caller.
func Watch(ctx context.Context, cfg Config, report func(Machine, []Change)) error {
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	last, err := Read(cfg)
	if err != nil {
		return err
	}
	report(last, nil)
	period := cfg.Period
	if period <= 0 {
		period = defaultPeriod
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C: // time to look
		}
		now, err := Read(cfg)
		if err != nil {
			log.Warn("the machine cannot be read; its last reading holds", "err", err)
			continue
		}
		if changes := now.Changes(last); len(changes) > 0 {
			report(now, changes)
			last = now
		}
	}
}
