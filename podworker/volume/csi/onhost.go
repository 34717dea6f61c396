package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// Why persistent volumes are refused. The second is in the kubelet's words.
var (
	errKind    = errors.New("is of a kind that is not supported, only csi, hostPath and local are")
	errOptions = errors.New("mount options are not supported for this volume type")
	errSource  = errors.New("only directory and block device are supported")
)

// defaultFSType is what a local device is formatted with that is empty, if its volume does
// not say (https://kubernetes.io/docs/reference/kubernetes-api/core/persistent-volume-v1/).
const defaultFSType = "ext4"

// onHost makes a persistent volume usable that is a place of this machine.
func (p *Provider) onHost(ctx context.Context, b *bound) (volume.Mounted, error) {
	source := &b.pv.Spec.PersistentVolumeSource
	switch {
	case source.HostPath != nil:
		return b.hostPath()
	case source.Local == nil:
		return volume.Mounted{}, fmt.Errorf("persistent volume %s %w", b.pv.Name, errKind)
	case !segment(b.pv.Name):
		return volume.Mounted{}, fmt.Errorf("%q cannot be the name of a volume", b.pv.Name)
	case !segment(string(b.pod.UID)):
		return volume.Mounted{}, fmt.Errorf("%q cannot be the UID of a pod", b.pod.UID)
	}
	path, err := plainPath(source.Local.Path)
	if err != nil {
		return volume.Mounted{}, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return volume.Mounted{}, fmt.Errorf("local volume %s: %w", b.pv.Name, err)
	case b.block():
		return b.device(path, info)
	}
	return p.local(ctx, b, path, info)
}

// plainPath returns the absolute path of a place of the machine. One with ".." is refused.
func plainPath(path string) (string, error) {
	switch {
	case path == "":
		return "", errors.New("the path of the volume is empty")
	case slices.Contains(strings.Split(filepath.ToSlash(path), "/"), ".."):
		return "", fmt.Errorf("invalid path: %s must not contain '..'", path)
	}
	return filepath.Join("/", path), nil
}

// hostPath checks a volume of kind hostPath. Nothing is mounted, and nothing given to a group.
func (b *bound) hostPath() (volume.Mounted, error) {
	source := b.pv.Spec.HostPath
	if _, err := plainPath(source.Path); err != nil {
		return volume.Mounted{}, err
	}
	switch {
	case b.block():
		return volume.Mounted{}, fmt.Errorf("persistent volume %s of kind hostPath has volumeMode %s, which is not supported", b.pv.Name, corev1.PersistentVolumeBlock)
	case len(b.pv.Spec.MountOptions) > 0:
		return volume.Mounted{}, fmt.Errorf("persistent volume %s of kind hostPath: %w", b.pv.Name, errOptions)
	}
	m, err := volume.HostPath(source)
	m.ReadOnly = b.readOnly()
	return m, err
}

// device is a local block device as it is. Links, as below /dev/disk, are followed now: what
// containers get is the device.
func (b *bound) device(path string, info fs.FileInfo) (volume.Mounted, error) {
	if !isBlockDevice(info) {
		return volume.Mounted{}, fmt.Errorf("local volume %s has volumeMode %s, and %s is no block device", b.pv.Name, corev1.PersistentVolumeBlock, path)
	}
	device, err := filepath.EvalSymlinks(path)
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("local volume %s: %w", b.pv.Name, err)
	}
	return volume.Mounted{Path: device, Block: true, ReadOnly: b.readOnly()}, nil
}

func isBlockDevice(info fs.FileInfo) bool {
	return info.Mode()&fs.ModeDevice != 0 && info.Mode()&fs.ModeCharDevice == 0
}

// local binds a local volume to where the kubelet has it for the pod. A device is mounted for
// all pods of the node first. The directory in which it is bound is made before anything is
// mounted: it tells that the pod has the volume, also after the death of this process.
func (p *Provider) local(ctx context.Context, b *bound, path string, info fs.FileInfo) (volume.Mounted, error) {
	target := p.paths.local(b.pod.UID, b.pv.Name)
	m := volume.Mounted{Path: target, ReadOnly: b.readOnly(), Relabel: !b.readOnly()}
	unlock, err := p.locals.take(ctx, b.pv.Name)
	if err != nil {
		return volume.Mounted{}, fmt.Errorf("local volume %s: %w", b.pv.Name, err)
	}
	defer unlock()
	if on, err := p.host.mounted(target); err != nil || on {
		return m, err
	}
	if err := os.MkdirAll(target, dirMode); err != nil {
		return volume.Mounted{}, err
	}
	options := slices.Clone(b.pv.Spec.MountOptions)
	if b.readOnly() {
		options = append(options, "ro")
	}
	switch {
	case isBlockDevice(info):
		if path, err = p.mountDevice(b, path, options); err != nil {
			return volume.Mounted{}, err
		}
	case !info.IsDir():
		return volume.Mounted{}, fmt.Errorf("local volume %s: %s: %w", b.pv.Name, path, errSource)
	}
	if err := p.ownLocal(ctx, b, path); err != nil {
		return volume.Mounted{}, err
	}
	if err := p.host.bind(path, target, options); err != nil {
		return volume.Mounted{}, fmt.Errorf("bind local volume %s from %s: %w", b.pv.Name, path, err)
	}
	return m, nil
}

// mountDevice mounts a device for all pods of the node, and returns where. One without a file
// system gets one first, unless it is only to be read.
func (p *Provider) mountDevice(b *bound, device string, options []string) (string, error) {
	place := p.paths.localDevice(b.pv.Name)
	if on, err := p.host.mounted(place); err != nil || on {
		return place, err
	}
	if err := os.MkdirAll(place, dirMode); err != nil {
		return "", err
	}
	fsType := defaultFSType
	if t := b.pv.Spec.Local.FSType; t != nil {
		fsType = *t
	}
	if err := p.host.format(device, place, fsType, options); err != nil {
		return "", errors.Join(fmt.Errorf("local: failed to mount device %s at %s (fstype: %s): %w", device, place, fsType, err), remove(place))
	}
	return place, nil
}

// ownLocal gives a local volume to the group of the pod, before the pod sees it. While other
// pods have it mounted it stays as it is: it would be taken away from them.
func (p *Provider) ownLocal(ctx context.Context, b *bound, dir string) error {
	security := b.pod.Spec.SecurityContext
	if security == nil || security.FSGroup == nil || b.readOnly() {
		return nil
	}
	shared, err := p.localShared(b.pod.UID, b.pv.Name)
	if err != nil {
		return fmt.Errorf("look which pods have local volume %s: %w", b.pv.Name, err)
	}
	if shared {
		p.tellGroup(b, dir)
		return nil
	}
	policy := security.FSGroupChangePolicy
	o := ownership{group: *security.FSGroup, onRootMismatch: policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch}
	if err := p.host.own(ctx, dir, o); err != nil {
		return fmt.Errorf("applyFSGroup failed for vol %s: %w", b.pv.Name, err)
	}
	return nil
}

// tellGroup logs that a volume is not of the group that a pod wants, if it is so.
func (p *Provider) tellGroup(b *bound, dir string) {
	info, err := os.Stat(dir)
	if err != nil {
		return // binding it says so
	}
	want := *b.pod.Spec.SecurityContext.FSGroup
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int64(st.Gid) != want {
		p.log.Warn("local volume stays of another group than the pod wants: other pods have it mounted",
			"pod", b.pod.Namespace+"/"+b.pod.Name, "uid", string(b.pod.UID), "volume", b.pv.Name, "group", st.Gid, "want", want)
	}
}

// tearDownLocals undoes the local volumes of a pod, by what is on disk. What is in them is
// nobody's to remove.
func (p *Provider) tearDownLocals(ctx context.Context, uid types.UID) error {
	specs, err := folders(p.paths.locals(uid))
	if err != nil {
		return err
	}
	var errs []error
	for _, spec := range specs {
		errs = append(errs, p.tearDownLocal(ctx, uid, spec))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return remove(p.paths.locals(uid))
}

// tearDownLocal undoes one. The device is unmounted with the last pod that has it, and only
// then the directory that says so goes.
func (p *Provider) tearDownLocal(ctx context.Context, uid types.UID, spec string) error {
	unlock, err := p.locals.take(ctx, spec)
	if err != nil {
		return fmt.Errorf("local volume %s: %w", spec, err)
	}
	defer unlock()
	target := p.paths.local(uid, spec)
	if err := p.host.unmount(ctx, target); err != nil {
		return fmt.Errorf("local volume %s: %w", spec, err)
	}
	if err := p.releaseDevice(ctx, uid, spec); err != nil {
		return fmt.Errorf("local volume %s: %w", spec, err)
	}
	return remove(target)
}

// releaseDevice unmounts the device of a local volume that has one, unless another pod has
// the volume.
func (p *Provider) releaseDevice(ctx context.Context, uid types.UID, spec string) error {
	place := p.paths.localDevice(spec)
	if _, err := os.Lstat(place); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if others, err := p.otherLocals(uid, spec); err != nil || len(others) > 0 {
		return err
	}
	if err := p.host.unmount(ctx, place); err != nil {
		return err
	}
	return remove(place)
}

// localShared reports whether a local volume is mounted for another pod. What a pod was to
// have before the agent or the machine died is not.
func (p *Provider) localShared(uid types.UID, spec string) (bool, error) {
	others, err := p.otherLocals(uid, spec)
	if err != nil {
		return false, err
	}
	for _, other := range others {
		if on, err := p.host.mounted(p.paths.local(other, spec)); err != nil || on {
			return on, err
		}
	}
	return false, nil
}

// otherLocals returns the other pods that have a local volume, or are about to.
func (p *Provider) otherLocals(uid types.UID, spec string) ([]types.UID, error) {
	pods, err := folders(p.paths.pods())
	if err != nil {
		return nil, err
	}
	var out []types.UID
	for _, pod := range pods {
		_, err := os.Lstat(p.paths.local(types.UID(pod), spec))
		switch {
		case pod == string(uid), errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		case err != nil:
			return nil, err
		default:
			out = append(out, types.UID(pod))
		}
	}
	return out, nil
}

// turns has those who work on one and the same thing work one after the other.
type turns struct {
	mu   sync.Mutex // guards busy
	busy map[string]chan struct{}
}

// take waits for the turn of a name; the returned function gives it back.
func (t *turns) take(ctx context.Context, name string) (give func(), err error) {
	for {
		t.mu.Lock()
		before := t.busy[name]
		if before == nil {
			mine := make(chan struct{})
			t.busy[name] = mine
			t.mu.Unlock()
			return func() {
				t.mu.Lock()
				delete(t.busy, name)
				t.mu.Unlock()
				close(mine)
			}, nil
		}
		t.mu.Unlock()
		select {
		case <-before:
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for another operation on the volume: %w", ctx.Err())
		}
	}
}
