package csi

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/moby/sys/mountinfo"
	mountutils "k8s.io/mount-utils"
	"k8s.io/utils/exec"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// localHost is the host that the process runs on.
type localHost struct{ volume.Mounter }

// mounted reads the mount table and does not touch the path itself: a file system whose
// server is gone would hang.
func (localHost) mounted(path string) (bool, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return false, ignoreMissing(err)
	}
	points, err := mountinfo.GetMounts(mountinfo.SingleEntryFilter(filepath.Join(parent, filepath.Base(path))))
	if err != nil {
		return false, fmt.Errorf("look whether %s is mounted: %w", path, err)
	}
	return len(points) > 0, nil
}

func (h localHost) own(ctx context.Context, dir string, o ownership) error {
	return h.SetGroup(ctx, dir, volume.Ownership{Group: o.group, OnRootMismatch: o.onRootMismatch})
}

func (h localHost) unmount(ctx context.Context, path string) error { return h.Unmount(ctx, path) }

// bind has mount(8) do it, which knows the options and sets those of a bind in a second step.
func (localHost) bind(source, target string, options []string) error {
	return mountutils.NewWithoutSystemd("").MountSensitiveWithoutSystemd(source, target, "", append([]string{"bind"}, options...), nil)
}

func (localHost) format(device, target, fsType string, options []string) error {
	return mountutils.NewSafeFormatAndMount(mountutils.NewWithoutSystemd(""), exec.New()).FormatAndMount(device, target, fsType, options)
}
