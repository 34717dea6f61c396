//go:build linux

package volume

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/nodekit-go/nodekit/podworker/internal/downward"
)

// Modes of volumes, as the kubelet makes them.
const (
	emptyDirMode = 0o777
	// ownerBits are what the group of a volume gets of a directory, beside the right to
	// hand on the group; readerBits are those of a volume that is only read.
	ownerBits  = 0o770
	readerBits = 0o550
	markMode   = 0o640
)

// place is an emptyDir: a volume of that kind, or where another kind keeps its files.
type place struct {
	uid    types.UID
	plugin string
	name   string // of the volume
	mark   string // the name under which it is known to be complete
	memory memory
	mode   fs.FileMode
	group  *int64
}

// memory says what file system in memory a place has; the zero value: none.
type memory struct {
	kind memoryKind
	size int64 // in bytes; 0: no limit of its own
	page int64 // of huge pages, in bytes
}

type memoryKind uint8

const (
	onDisk memoryKind = iota
	inTmpfs
	inHugePages
)

// readyFile marks an emptyDir as complete, in the directory of what is known of it.
const readyFile = "ready"

// emptyDir sets up an emptyDir volume.
func (m *Manager) emptyDir(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) (Mounted, error) {
	source := v.EmptyDir
	if source == nil {
		source = &corev1.EmptyDirVolumeSource{} // the API's default for a volume without a source
	}
	p := &place{uid: pod.UID, plugin: emptyDirPlugin, name: v.Name, mark: v.Name, mode: emptyDirMode, group: fsGroup(pod)}
	if source.Mode != nil {
		p.mode = unixMode(*source.Mode)
	}
	if p.group != nil {
		p.mode |= fs.ModeSetgid | ownerBits
	}
	var err error
	if p.memory, err = mediumOf(pod, source, *m.allocatable.Load()); err != nil {
		return Mounted{}, err
	}
	if p.memory.kind == inTmpfs && source.Mode == nil {
		p.mode |= fs.ModeSticky // as the kernel makes the root of a tmpfs, which the kubelet leaves so
	}
	if err := m.makePlace(ctx, p); err != nil {
		return Mounted{}, err
	}
	return Mounted{Path: m.dirs.volume(pod.UID, emptyDirPlugin, v.Name), Relabel: true}, nil
}

// mediumOf returns the memory that an emptyDir asks for.
func mediumOf(pod *corev1.Pod, source *corev1.EmptyDirVolumeSource, allocatable corev1.ResourceList) (memory, error) {
	switch medium := source.Medium; {
	case medium == corev1.StorageMediumDefault:
		return memory{}, nil
	case medium == corev1.StorageMediumMemory:
		return memory{kind: inTmpfs, size: memorySize(pod, source.SizeLimit, allocatable)}, nil
	case medium == corev1.StorageMediumHugePages, strings.HasPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)):
		page, err := pageSize(pod, medium)
		if err != nil {
			return memory{}, err
		}
		out := memory{kind: inHugePages, page: page}
		if source.SizeLimit != nil {
			out.size = source.SizeLimit.Value()
		}
		return out, nil
	}
	return memory{}, fmt.Errorf("unknown storage medium %q", source.Medium)
}

// memorySize returns how much a volume in memory may hold: the least of what it asks for,
// the memory limit of the pod and what the node can give, 0 without any of them
// (https://kubernetes.io/docs/concepts/storage/volumes/#emptydir).
func memorySize(pod *corev1.Pod, limit *resource.Quantity, allocatable corev1.ResourceList) int64 {
	size := allocatable.Memory().Value()
	least := func(n int64) {
		if n > 0 && (size == 0 || n < size) {
			size = n
		}
	}
	if downward.Limited(pod, corev1.ResourceMemory) {
		limits := resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{})
		least(limits.Memory().Value())
	}
	if limit != nil {
		least(limit.Value())
	}
	return size
}

// pageSize returns the size of the huge pages of a medium, in bytes: the one it names, or
// the only one that the pod requests
// (https://kubernetes.io/docs/tasks/manage-hugepages/scheduling-hugepages/).
func pageSize(pod *corev1.Pod, medium corev1.StorageMedium) (int64, error) {
	requested := requestedPages(pod)
	if named, ok := strings.CutPrefix(string(medium), string(corev1.StorageMediumHugePagesPrefix)); ok {
		q, err := resource.ParseQuantity(named)
		if err != nil {
			return 0, fmt.Errorf("medium %s: %w", medium, err)
		}
		if !requested[q.Value()] {
			return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages of that size", medium)
		}
		return q.Value(), nil
	}
	switch len(requested) {
	case 0:
		return 0, fmt.Errorf("medium %s: hugePages storage requested, but there is no resource request for huge pages", medium)
	case 1:
		for size := range requested {
			return size, nil
		}
	}
	return 0, fmt.Errorf("medium: %s can't be used if container requests multiple huge page sizes", medium)
}

// requestedPages returns the sizes of huge pages that a pod or a container of it requests.
func requestedPages(pod *corev1.Pod) map[int64]bool {
	out := map[int64]bool{}
	take := func(r *corev1.ResourceRequirements) {
		for _, list := range []corev1.ResourceList{r.Requests, r.Limits} { // they are equal
			for name := range list {
				if size, ok := downward.HugePageSize(name); ok {
					out[size] = true
				}
			}
		}
	}
	if pod.Spec.Resources != nil {
		take(pod.Spec.Resources)
	}
	visitContainers(pod, func(c *corev1.Container) { take(&c.Resources) })
	return out
}

// unixMode turns the mode bits of chmod(2), including the sticky bit, into Go's.
func unixMode(bits int32) fs.FileMode {
	const sticky = 0o1000
	mode := fs.FileMode(bits) & fs.ModePerm
	if bits&sticky != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

func fsGroup(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

// makePlace makes an emptyDir, unless it is there and complete: then its mode is left
// alone, which a container may have changed.
func (m *Manager) makePlace(ctx context.Context, p *place) error {
	dir := m.dirs.volume(p.uid, p.plugin, p.name)
	ready, err := m.isReady(p)
	if err != nil || ready {
		return err
	}
	if err := os.MkdirAll(m.dirs.pod(p.uid), dirMode); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	switch p.memory.kind {
	case inTmpfs:
		err = m.mounter.Memory(ctx, dir, p.memory.size, p.mode)
	case inHugePages:
		err = m.mounter.HugePages(ctx, dir, p.memory.page, p.memory.size)
	case onDisk:
	}
	if err != nil {
		return err
	}
	if p.group != nil {
		if err := os.Lchown(dir, -1, int(*p.group)); err != nil {
			return err
		}
	}
	if err := os.Chmod(dir, p.mode); err != nil { // whatever the umask
		return err
	}
	return m.setReady(p)
}

// isReady reports whether an emptyDir is complete.
func (m *Manager) isReady(p *place) (bool, error) {
	if _, err := os.Lstat(filepath.Join(m.dirs.meta(p.uid, p.mark), readyFile)); err != nil {
		return false, unlessMissing(err)
	}
	dir := m.dirs.volume(p.uid, p.plugin, p.name)
	if p.memory.kind != onDisk {
		return isMountPoint(dir)
	}
	if _, err := os.Lstat(dir); err != nil {
		return false, unlessMissing(err)
	}
	return true, nil
}

// setReady marks an emptyDir as complete, in this run of the machine.
func (m *Manager) setReady(p *place) error {
	dir := m.dirs.meta(p.uid, p.mark)
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, readyFile), m.boot(), markMode)
}
