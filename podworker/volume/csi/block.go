package csi

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// link notes in the directory of the pod that it has a block device: by a link to where
// the driver publishes it, which is made first.
func (o *operation) link() error {
	target := o.target()
	if err := os.MkdirAll(filepath.Dir(target), dirMode); err != nil {
		return err
	}
	dir := o.p.paths.devices(o.w.pod.UID)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	path := filepath.Join(dir, o.w.spec)
	if to, err := os.Readlink(path); err == nil && to == target {
		return nil
	}
	if err := remove(path); err != nil {
		return err
	}
	return os.Symlink(target, path)
}

// checkDevice makes sure that containers get a block device.
func (o *operation) checkDevice() error {
	target := o.target()
	info, err := os.Stat(target)
	if err != nil {
		return fmt.Errorf("driver %s has published volume %s: %w", o.d.name, o.w.id.handle, err)
	}
	if info.Mode()&fs.ModeDevice == 0 || info.Mode()&fs.ModeCharDevice != 0 {
		return fmt.Errorf("driver %s has published %s as volume %s, which is no block device", o.d.name, target, o.w.id.handle)
	}
	return nil
}

// removeLink removes what a pod has of a block device that is not published any more.
func (p *Provider) removeLink(uid types.UID, spec string) error {
	target := p.paths.blockTarget(uid, spec)
	on, err := p.host.mounted(target)
	switch {
	case err != nil:
		return err
	case on:
		return fmt.Errorf("%s is still mounted after the driver said that it is not published", target)
	}
	if err := remove(target); err != nil {
		return err
	}
	return remove(filepath.Join(p.paths.devices(uid), spec))
}

// removeBlock removes what is left of a block device that is not staged. What is mounted
// stays, with its record.
func (p *Provider) removeBlock(spec string) error {
	place := p.paths.blockStaging(spec)
	if on, err := p.host.mounted(place); err != nil || on {
		return err
	}
	if err := errors.Join(remove(place), remove(p.paths.blockTargets(spec))); err != nil {
		return err
	}
	if err := remove(filepath.Join(p.paths.block(spec), "dev")); err != nil {
		return err
	}
	if err := removeRecord(p.paths.blockData(spec)); err != nil {
		return err
	}
	return remove(p.paths.block(spec))
}
