package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// Usage returns what the volumes of a pod take up, as the drivers say that can tell: they
// have the capability GET_VOLUME_STATS. Volumes that could not be measured are left out and
// named in the error beside the others. What drivers say of the health of volumes is not
// looked at.
func (p *Provider) Usage(ctx context.Context, uid types.UID) ([]volume.Usage, error) {
	if !segment(string(uid)) {
		return nil, fmt.Errorf("%q cannot be the UID of a pod", uid)
	}
	all, err := p.ofPod(uid)
	if err != nil {
		return nil, err
	}
	var out []volume.Usage
	var errs []error
	for _, v := range all {
		u, ok, err := p.usage(ctx, v)
		if ok && err == nil {
			out = append(out, u)
		}
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// usage asks the driver about one volume of a pod; false if it can't tell.
func (p *Provider) usage(ctx context.Context, v published) (volume.Usage, bool, error) {
	r, err := readRecord(p.recordDir(v))
	if errors.Is(err, fs.ErrNotExist) {
		return volume.Usage{}, false, nil // it is coming or going
	}
	if err != nil {
		return volume.Usage{}, false, err
	}
	name := r.Volume
	if r.Lifecycle == storagev1.VolumeLifecycleEphemeral {
		name = v.spec
	}
	d, err := p.drivers.get(r.Driver)
	if err != nil || !d.can.usage || name == "" {
		return volume.Usage{}, false, nil // it may come again
	}
	req := &csiapi.NodeGetVolumeStatsRequest{VolumeId: r.Handle, VolumePath: p.targetOf(v)}
	switch {
	case !d.can.stage || r.Lifecycle == storagev1.VolumeLifecycleEphemeral:
	case v.block:
		req.StagingTargetPath = p.paths.blockStaging(v.spec)
	default:
		req.StagingTargetPath = p.paths.staging(r.id())
	}
	out := volume.Usage{Volume: name}
	err = d.call(ctx, "NodeGetVolumeStats", r.Handle, func(ctx context.Context, c csiapi.NodeClient) error {
		answer, err := c.NodeGetVolumeStats(ctx, req)
		read(&out, answer)
		return err
	})
	return out, err == nil, err
}

// read takes what a driver says. Numbers below 0 mean nothing, and unknown units are new.
func read(u *volume.Usage, answer *csiapi.NodeGetVolumeStatsResponse) {
	for _, part := range answer.GetUsage() {
		total, used, free := max(part.GetTotal(), 0), max(part.GetUsed(), 0), max(part.GetAvailable(), 0)
		switch part.GetUnit() {
		case csiapi.VolumeUsage_BYTES:
			u.Bytes, u.Space.Size, u.Space.Available = used, total, free
		case csiapi.VolumeUsage_INODES:
			u.Inodes, u.Space.Inodes, u.Space.InodesFree = used, total, free
		case csiapi.VolumeUsage_UNKNOWN:
		}
	}
}
