package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"k8s.io/apimachinery/pkg/types"
)

// published is a volume of a pod that is found on disk.
type published struct {
	uid   types.UID
	spec  string
	block bool
}

// TearDown has the drivers unpublish all volumes of a pod, by the records on disk, and
// removes what is left. Volumes that no other pod uses are unstaged by Run afterwards.
// What is still mounted is left alone, and is an error. Local volumes are unmounted.
func (p *Provider) TearDown(ctx context.Context, uid types.UID) error {
	if !segment(string(uid)) {
		return fmt.Errorf("%q cannot be the UID of a pod", uid)
	}
	return errors.Join(p.tearDownLocals(ctx, uid), p.tearDownDriven(ctx, uid))
}

// tearDownDriven undoes the volumes of drivers.
func (p *Provider) tearDownDriven(ctx context.Context, uid types.UID) error {
	all, err := p.ofPod(uid)
	if err != nil {
		return err
	}
	errs := make([]error, len(all))
	kept := make([]volumeID, len(all))
	var each sync.WaitGroup
	for i, v := range all {
		each.Go(func() { kept[i], errs[i] = p.unpublish(ctx, v) })
	}
	each.Wait()
	keep := map[volumeID]bool{}
	for i, err := range errs {
		if err != nil {
			keep[kept[i]] = true
		}
	}
	if !keep[volumeID{}] { // else something is left of a volume that is not known
		p.volumes.release(uid, keep)
		p.sweepSoon()
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return errors.Join(remove(p.paths.volumes(uid)), remove(p.paths.devices(uid)))
}

// ofPod returns what there is of a pod.
func (p *Provider) ofPod(uid types.UID) ([]published, error) {
	mounts, err := folders(p.paths.volumes(uid))
	if err != nil {
		return nil, err
	}
	devices, err := names(p.paths.devices(uid))
	if err != nil {
		return nil, err
	}
	var all []published
	for _, n := range mounts {
		all = append(all, published{uid: uid, spec: n})
	}
	for _, n := range devices {
		all = append(all, published{uid: uid, spec: n, block: true})
	}
	return all, nil
}

// names lists a directory; one that does not exist is empty.
func names(dir string) ([]string, error) {
	return listed(dir, func(fs.DirEntry) bool { return true })
}

// folders lists the directories in a directory. A file that lies there is nobody's.
func folders(dir string) ([]string, error) { return listed(dir, fs.DirEntry.IsDir) }

func listed(dir string, which func(e fs.DirEntry) bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		if which(e) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// recordDir is where the record of a volume of a pod is.
func (p *Provider) recordDir(v published) string {
	if v.block {
		return p.paths.blockData(v.spec)
	}
	return filepath.Join(p.paths.volumes(v.uid), v.spec)
}

// targetOf is where a volume is published to its pod.
func (p *Provider) targetOf(v published) string {
	if v.block {
		return p.paths.blockTarget(v.uid, v.spec)
	}
	return p.paths.target(v.uid, v.spec)
}

// unpublish undoes one volume of a pod. It returns which volume that is, where it is
// known.
func (p *Provider) unpublish(ctx context.Context, v published) (volumeID, error) {
	r, err := readRecord(p.recordDir(v))
	if errors.Is(err, fs.ErrNotExist) {
		return volumeID{}, p.removeUnknown(v)
	}
	if err != nil {
		return volumeID{}, fmt.Errorf("volume %s of pod %s: %w; the driver that has it is not known, undo it and remove the file", v.spec, v.uid, err)
	}
	id := r.id()
	d, err := p.drivers.get(id.driver)
	if err != nil {
		return id, fmt.Errorf("volume %s of pod %s: %w", v.spec, v.uid, err)
	}
	s := p.volumes.get(id)
	if s == nil {
		s = p.volumes.found(r, v.uid, v.block, v.spec)
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return id, fmt.Errorf("volume %s of pod %s: %w", v.spec, v.uid, err)
	}
	defer unlock()
	delete(s.published, place{v.uid, v.spec})
	target := p.targetOf(v)
	err = d.call(ctx, "NodeUnpublishVolume", id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
		_, err := c.NodeUnpublishVolume(ctx, &csiapi.NodeUnpublishVolumeRequest{VolumeId: id.handle, TargetPath: target})
		return err
	})
	if err != nil {
		return id, fmt.Errorf("volume %s of pod %s: %w", v.spec, v.uid, err)
	}
	return id, p.removePublished(ctx, v)
}

// removePublished removes what a driver leaves after it has unpublished a volume.
func (p *Provider) removePublished(ctx context.Context, v published) error {
	if v.block {
		if err := p.unmap(ctx, v); err != nil {
			return err
		}
		return p.removeLink(v.uid, v.spec)
	}
	target := p.targetOf(v)
	on, err := p.host.mounted(target)
	switch {
	case err != nil:
		return err
	case on:
		return fmt.Errorf("volume %s of pod %s: %s is still mounted after the driver said that it is not published", v.spec, v.uid, target)
	}
	return p.removeTarget(target)
}

// unmap undoes what the kubelet makes of a block device beside the link of the pod: a
// bind mount that holds it. It is not the driver's.
func (p *Provider) unmap(ctx context.Context, v published) error {
	held := filepath.Join(p.paths.block(v.spec), "dev", string(v.uid))
	if err := p.host.unmount(ctx, held); err != nil {
		return err
	}
	return remove(held)
}

// removeUnknown removes a directory without a record: the agent died before it wrote it,
// or after it removed it. What is mounted there, or what else is in it, is nobody's.
func (p *Provider) removeUnknown(v published) error {
	if v.block {
		return p.removeLink(v.uid, v.spec)
	}
	target := p.targetOf(v)
	on, err := p.host.mounted(target)
	switch {
	case err != nil:
		return err
	case on:
		return fmt.Errorf("volume %s of pod %s: %s is mounted and has no %s, so that the driver that has it is not known: undo it", v.spec, v.uid, target, recordFile)
	}
	return p.removeTarget(target)
}
