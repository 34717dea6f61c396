package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// The VolumeAttachment of a volume is read after firstLook, half as long again each
	// time, up to lastLook.
	firstLook = 500 * time.Millisecond
	lastLook  = 5 * time.Second
)

// waitAttached waits until the control plane has attached a volume to this node, and
// returns what the attacher tells the driver. It returns at once what the attacher failed
// with.
func (p *Provider) waitAttached(ctx context.Context, id volumeID) (map[string]string, error) {
	if p.cfg.ReportsInUse {
		p.cfg.InUseChanged()
		if err := p.volumes.waitReported(ctx, id.unique()); err != nil {
			return nil, err
		}
	}
	for pause := firstLook; ; pause = min(pause+pause/2, lastLook) {
		metadata, waitFor, err := p.lookAttached(ctx, id)
		if err != nil || waitFor == nil {
			return metadata, err
		}
		again := time.NewTimer(pause)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
			return nil, fmt.Errorf("volume %s is not attached: %w: %w", id, waitFor, ctx.Err())
		}
	}
}

// lookAttached looks once. waitFor says what is missing, nil for nothing.
func (p *Provider) lookAttached(ctx context.Context, id volumeID) (metadata map[string]string, waitFor, err error) {
	name := attachment(id, p.cfg.Node)
	a, err := p.cfg.API.Attachments.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read VolumeAttachment %s: %w", name, err), nil
	}
	if waitFor, err = attachedBy(a); waitFor != nil || err != nil {
		return nil, waitFor, err
	}
	if p.cfg.ReportsInUse {
		node, err := p.cfg.API.Nodes.Get(ctx, p.cfg.Node, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("read Node %s: %w", p.cfg.Node, err), nil
		}
		if !lists(node, id.unique()) {
			return nil, fmt.Errorf("it is not among volumesAttached of Node %s", p.cfg.Node), nil
		}
	}
	return a.Status.AttachmentMetadata, nil, nil
}

// errNoPlace says that the attacher has found no place for a volume at the node.
var errNoPlace = errors.New("no place is left")

// attachedBy reads a VolumeAttachment.
func attachedBy(a *storagev1.VolumeAttachment) (waitFor, err error) {
	switch {
	case a.DeletionTimestamp != nil:
		return nil, fmt.Errorf("VolumeAttachment %s is being deleted", a.Name)
	case a.Status.Attached:
		return nil, nil
	case a.Status.AttachError != nil:
		why := errors.New(a.Status.AttachError.Message)
		if code := a.Status.AttachError.ErrorCode; code != nil && *code == int32(codes.ResourceExhausted) {
			why = fmt.Errorf("%w: %w", errNoPlace, why)
		}
		return nil, fmt.Errorf("VolumeAttachment %s: attach: %w", a.Name, why)
	}
	return fmt.Errorf("VolumeAttachment %s says that it is not attached yet", a.Name), nil
}

func lists(node *corev1.Node, name corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == name })
}
