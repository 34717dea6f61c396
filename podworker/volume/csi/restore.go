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
	pods, err := folders(p.paths.pods())
	if err != nil {
		return err
	}
	for _, pod := range pods {
		if err := p.restorePod(types.UID(pod)); err != nil {
			p.log.Warn("volumes of a pod not known, nothing is unstaged before they are", "uid", pod, "err", err)
			p.unreadPods = append(p.unreadPods, types.UID(pod))
		}
	}
	p.restoreStaged()
	return nil
}

// restorePod reads which volumes a pod has.
func (p *Provider) restorePod(uid types.UID) error {
	all, err := p.ofPod(uid)
	for _, v := range all {
		p.restorePublished(v)
	}
	return err
}

// restoreStaged reads which volumes are staged.
func (p *Provider) restoreStaged() {
	for _, d := range p.stagedIn(p.paths.plugin()) {
		if d == blockDir {
			continue
		}
		dir := filepath.Join(p.paths.plugin(), d)
		for _, s := range p.stagedIn(dir) {
			p.restoreStaging(filepath.Join(dir, s), published{})
		}
	}
	for _, spec := range p.stagedIn(filepath.Join(p.paths.plugin(), blockDir)) {
		if spec != "staging" && spec != "publish" {
			p.restoreStaging(p.paths.blockData(spec), published{spec: spec, block: true})
		}
	}
}

// stagedIn lists a directory of what is staged; nothing if it cannot be read.
func (p *Provider) stagedIn(dir string) []string {
	out, err := folders(dir)
	if err != nil {
		p.log.Warn("directory not read, what is staged there is left alone", "dir", dir, "err", err)
	}
	return out
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
	p.unreadPods = slices.DeleteFunc(p.unreadPods, func(uid types.UID) bool {
		err := p.restorePod(uid)
		if err != nil {
			errs = append(errs, fmt.Errorf("volumes of pod %s are not known: %w", uid, err))
		}
		return err == nil
	})
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
