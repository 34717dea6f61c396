package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
)

const (
	// Volumes that could not be unstaged are tried again after sweepPause, twice as long
	// each time, up to lastSweepPause.
	sweepPause     = time.Second
	lastSweepPause = 2 * time.Minute
)

// sweep has volumes unstaged that no pod uses, until ctx ends. Each has a goroutine, so
// that a driver that hangs holds up no other.
func (p *Provider) sweep(ctx context.Context) {
	var each sync.WaitGroup
	defer each.Wait()
	ended := make(chan unstaged)
	busy, told := map[volumeID]bool{}, map[volumeID]string{}
	again := time.NewTimer(0)
	defer again.Stop()
	for pause := sweepPause; ; {
		select {
		case <-p.wake: // a pod has gone, or a driver has come
			pause = sweepPause
		case <-again.C: // something failed before
		case u := <-ended:
			delete(busy, u.id)
			if p.complain(told, u, pause) {
				again.Reset(pause)
				pause = min(2*pause, lastSweepPause)
			}
			continue
		case <-ctx.Done():
			return
		}
		ids, err := p.unused()
		if p.complain(told, unstaged{err: err}, pause) {
			again.Reset(pause)
			pause = min(2*pause, lastSweepPause)
		}
		for _, id := range ids {
			if busy[id] {
				continue
			}
			busy[id] = true
			each.Go(func() {
				u := unstaged{id, p.unstage(ctx, id)}
				select {
				case ended <- u:
				case <-ctx.Done():
				}
			})
		}
	}
}

// unstaged is the outcome for a volume; without an ID, for all of them.
type unstaged struct {
	id  volumeID
	err error
}

// complain logs what failed, once for each reason, and reports whether it did fail.
func (p *Provider) complain(told map[volumeID]string, u unstaged, pause time.Duration) bool {
	if u.err == nil {
		delete(told, u.id)
		return false
	}
	if text := u.err.Error(); text != told[u.id] {
		told[u.id] = text
		p.log.Warn("volume that no pod uses is not unstaged, it is tried again", "in", pause, "err", u.err)
	}
	return true
}

// unused returns the volumes that no pod uses; none while it is not known of all pods
// what they use.
func (p *Provider) unused() ([]volumeID, error) {
	if err := p.unreadable(); err != nil {
		return nil, err
	}
	return p.volumes.unused(), nil
}

// unstage undoes the staging of a volume, unless a pod came for it.
func (p *Provider) unstage(ctx context.Context, id volumeID) error {
	s := p.volumes.get(id)
	if s == nil {
		return nil
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return fmt.Errorf("volume %s: %w", id, err)
	}
	defer unlock()
	block, spec, unused := p.volumes.staging(s)
	if !unused {
		return nil
	}
	s.staged = false // whatever comes of the call: the next pod has it staged again
	if err := p.unstageCall(ctx, id, block, spec); err != nil {
		return err
	}
	p.volumes.forget(id)
	p.cfg.InUseChanged()
	return nil
}

func (p *Provider) unstageCall(ctx context.Context, id volumeID, block bool, spec string) error {
	place, dir := p.paths.staging(id), filepath.Dir(p.paths.staging(id))
	if block {
		place, dir = p.paths.blockStaging(spec), p.paths.blockData(spec)
	}
	if _, err := os.Lstat(filepath.Join(dir, recordFile)); errors.Is(err, fs.ErrNotExist) {
		return p.removeStaging(id, block, spec) // it was never staged
	}
	d, err := p.drivers.get(id.driver)
	if err != nil {
		return fmt.Errorf("volume %s: %w", id, err)
	}
	if d.can.stage {
		err = d.call(ctx, "NodeUnstageVolume", id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
			_, err := c.NodeUnstageVolume(ctx, &csiapi.NodeUnstageVolumeRequest{VolumeId: id.handle, StagingTargetPath: place})
			return err
		})
		if err != nil {
			return err
		}
	}
	on, err := p.host.mounted(place)
	switch {
	case err != nil:
		return err
	case on:
		return fmt.Errorf("volume %s: %s is still mounted after the driver said that it is not staged", id, place)
	}
	return p.removeStaging(id, block, spec)
}
