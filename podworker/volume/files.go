//go:build linux

package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume/atomicwriter"
)

// writeFiles makes a place and puts files in it, all at once.
func (m *Manager) writeFiles(ctx context.Context, pod *corev1.Pod, p *place, files payload) error {
	select {
	case m.writes <- struct{}{}:
		defer func() { <-m.writes }()
	case <-ctx.Done():
		return fmt.Errorf("wait for other volumes to be written: %w", ctx.Err())
	}
	if err := m.makePlace(ctx, p); err != nil {
		return err
	}
	dir := m.dirs.volume(p.uid, p.plugin, p.name)
	if err := makeMountPoints(dir, nested(pod, p.name)); err != nil {
		return err
	}
	w := atomicwriter.Writer{Dir: dir}
	if p.group != nil {
		gid := int(*p.group)
		w.GID = &gid
	}
	if _, err := w.Write(files); err != nil {
		return err
	}
	if ofThisBoot, err := m.isOfThisBoot(p); ofThisBoot || err != nil {
		return err
	}
	return m.setReady(p)
}

// boot returns the ID of this run of the machine (random(4)), empty if there is none.
func (m *Manager) boot() []byte {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return nil
	}
	return id
}

// isOfThisBoot reports whether a place was marked in this run of the machine.
func (m *Manager) isOfThisBoot(p *place) (bool, error) {
	mark, err := os.ReadFile(filepath.Join(m.dirs.meta(p.uid, p.mark), readyFile))
	return len(mark) > 0 && bytes.Equal(mark, m.boot()), unlessMissing(err)
}

// isComplete reports whether a place holds a set of files that was written as a whole. What
// was written before the machine started may not have reached the disk.
func (m *Manager) isComplete(p *place) (bool, error) {
	ready, err := m.isReady(p)
	if err != nil || !ready {
		return false, err
	}
	if ofThisBoot, err := m.isOfThisBoot(p); err != nil || !ofThisBoot {
		return false, err
	}
	_, err = os.Stat(filepath.Join(m.dirs.volume(p.uid, p.plugin, p.name), "..data"))
	return err == nil, unlessMissing(err)
}

// makeMountPoints makes the directories of a volume that other volumes are mounted to.
func makeMountPoints(dir string, points []string) error {
	const mode = 0o755
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, point := range points {
		if _, err := root.Stat(point); err == nil || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, root.MkdirAll(point, mode))
	}
	return errors.Join(append(errs, root.Close())...)
}

// nested returns where other volumes are mounted below a volume of a pod, relative to it.
// Of those below each other only the first counts: the others are in that one.
func nested(pod *corev1.Pod, name string) []string {
	var out []string
	visitContainers(pod, func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			if c.VolumeMounts[i].Name == name {
				out = append(out, below(c, filepath.Clean("/"+c.VolumeMounts[i].MountPath))...)
			}
		}
	})
	return out
}

// below returns the mounts of a container below a path, without those below others.
func below(c *corev1.Container, path string) []string {
	var out []string
	for i := range c.VolumeMounts {
		rel, err := filepath.Rel(path, filepath.Clean("/"+c.VolumeMounts[i].MountPath))
		if err != nil || rel == "." || !filepath.IsLocal(rel) {
			continue
		}
		inOther := false
		for j := range c.VolumeMounts {
			other, err := filepath.Rel(path, filepath.Clean("/"+c.VolumeMounts[j].MountPath))
			if err == nil && other != "." && filepath.IsLocal(other) && other != rel && isBelow(rel, other) {
				inOther = true
			}
		}
		if !inOther {
			out = append(out, rel)
		}
	}
	return out
}

// isBelow reports whether a path is below another one.
func isBelow(path, dir string) bool {
	return len(path) > len(dir) && path[:len(dir)] == dir && path[len(dir)] == '/'
}
