package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// restore reads from the disk which volumes pods have and which are staged: what an
// agent before this one was told to undo, it is told again, and what it was not, stays.
// Whether something is mounted there does not matter: after a reboot nothing is, and
// drivers are told to undo it all the same.
func (p *Provider) restore() error {
	pods, err := names(p.paths.pods())
	if err != nil {
		return err
	}
	for _, pod := range pods {
		all, err := p.ofPod(types.UID(pod))
		if err != nil {
			return err
		}
		for _, v := range all {
			p.restorePublished(v)
		}
	}
	return p.restoreStaged()
}

// restoreStaged reads which volumes are staged.
func (p *Provider) restoreStaged() error {
	drivers, err := names(p.paths.plugin())
	if err != nil {
		return err
	}
	for _, d := range drivers {
		if d == blockDir {
			continue
		}
		staged, err := names(filepath.Join(p.paths.plugin(), d))
		if err != nil {
			p.log.Warn("directory of a driver not read, what is staged there is left alone", "driver", d, "err", err)
			continue
		}
		for _, s := range staged {
			p.restoreStaging(filepath.Join(p.paths.plugin(), d, s), published{})
		}
	}
	blocks, err := names(filepath.Join(p.paths.plugin(), blockDir))
	if err != nil {
		return err
	}
	for _, spec := range blocks {
		if spec != "staging" && spec != "publish" {
			p.restoreStaging(p.paths.blockData(spec), published{spec: spec, block: true})
		}
	}
	return nil
}

// restorePublished notes what the record of a volume of a pod says.
func (p *Provider) restorePublished(v published) {
	r, err := readRecord(p.recordDir(v))
	if err == nil {
		p.volumes.found(r, v.uid, v.block, v.spec)
		return
	}
	if err := p.readable(v); err != nil {
		p.log.Warn("volume of a pod not known, nothing is unstaged before it is", "pod", v.uid, "volume", v.spec, "err", err)
		p.unread = append(p.unread, v)
	}
}

// restoreStaging notes what the record of a volume that is staged says.
func (p *Provider) restoreStaging(dir string, v published) {
	r, err := readRecord(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nothing was done yet, or nothing is left
	case err != nil:
		p.log.Warn("record of a volume not read, what is staged is left alone", "dir", dir, "err", err)
	default:
		p.volumes.found(r, "", v.block, v.spec)
	}
}

// readable returns nil when there is a record of a volume of a pod that can be read, or
// nothing is there of it.
func (p *Provider) readable(v published) error {
	_, err := readRecord(p.recordDir(v))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	on, err := p.host.mounted(p.targetOf(v))
	if err == nil && on {
		err = fmt.Errorf("%s is mounted and has no %s", p.targetOf(v), recordFile)
	}
	return err
}

// unreadable returns an error while there are volumes of pods of which it is not known
// what they are: any staged volume may be theirs. It is called by one goroutine.
func (p *Provider) unreadable() error {
	var errs []error
	p.unread = slices.DeleteFunc(p.unread, func(v published) bool {
		if r, err := readRecord(p.recordDir(v)); err == nil {
			p.volumes.found(r, v.uid, v.block, v.spec)
			return true
		}
		err := p.readable(v)
		if err != nil {
			errs = append(errs, fmt.Errorf("volume %s of pod %s is not known: %w", v.spec, v.uid, err))
		}
		return err == nil
	})
	return errors.Join(errs...)
}
