package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

// grown is how far a volume has grown on this node, of which the claim does not tell when
// several nodes have the volume.
type grown struct {
	bytes int64 // that it has here, 0: not known
	// failed: the driver has refused here, so that another try is the last one if the claim
	// asks for another size by then.
	failed bool
	// inUse: the driver does not let it grow while it is in use.
	inUse bool
}

// growth is what is to be done so that a volume has its size on this node.
type growth struct {
	bytes int64 // that it shall have, 0: nothing is to be done
	// elsewhere: the claim says already that it has them, by another node.
	elsewhere bool
	// recovers: who makes volumes grow follows the status of the claim, and takes back
	// there what turns out not to be feasible.
	recovers bool
	// last: it is not tried again when the driver refuses.
	last bool
}

// growthOf says how a volume of a claim has to grow on a node where it has grown as here
// says. size is what the persistent volume says, in bytes
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-storage/1790-recover-resize-failure).
func growthOf(claim *corev1.PersistentVolumeClaim, size int64, here grown) growth {
	told, ok := claim.Status.Capacity[corev1.ResourceStorage]
	if !ok {
		return growth{}
	}
	status := claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage]
	allocated, known := claim.Status.AllocatedResources[corev1.ResourceStorage]
	asked := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	g := growth{bytes: size, recovers: status != "" || known}
	if known && told.Value() < size {
		g.bytes = allocated.Value()
	}
	g.last = here.failed && asked.Value() != g.bytes
	switch {
	case told.Value() < size && g.recovers && !onNodes(status):
		return growth{}
	case told.Value() < size:
		return g
	case here.bytes < size && status == "" && eachNode(claim):
		g.elsewhere = true
		return g
	}
	return growth{}
}

// onNodes reports whether a volume has grown but for what nodes have to do.
func onNodes(s corev1.ClaimResourceStatus) bool {
	return s == corev1.PersistentVolumeClaimNodeResizePending || s == corev1.PersistentVolumeClaimNodeResizeInProgress
}

// notOnNodes is the annotation by which who makes volumes grow says that nodes have nothing
// to do for it (https://github.com/kubernetes-csi/external-resizer).
const notOnNodes = "volume.kubernetes.io/node-expansion-not-required"

// eachNode reports whether several nodes may have the volume, and each has to make it grow.
func eachNode(claim *corev1.PersistentVolumeClaim) bool {
	_, not := claim.Annotations[notOnNodes]
	return !not && slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany)
}

// sizeHere is how many bytes a volume has on a node that does not know it: what the claim
// says, as it was mounted after that. 0, not known, of one that an agent before this one
// mounted here, if the claim has grown once.
func sizeHere(claim *corev1.PersistentVolumeClaim, before bool) int64 {
	if _, grew := claim.Status.AllocatedResources[corev1.ResourceStorage]; before && grew {
		return 0
	}
	told := claim.Status.Capacity[corev1.ResourceStorage]
	return told.Value()
}

// grows reports whether the volume may have to be made larger on this node.
func (o *operation) grows() bool {
	return o.d.can.expand && o.w.claim != nil && !o.w.readOnly
}

// expand has the driver make a volume as large as the persistent volume says, when the
// claim says that it is smaller, or when only another node has made it so. A failure does
// not keep a pod from what it has: it is told, and tried again when the volume is looked
// at next. again: the pod had the volume before.
func (o *operation) expand(ctx context.Context, staged string, again bool) {
	if !o.d.can.expand || o.w.claim == nil {
		return
	}
	here := &o.s.grown
	if here.bytes == 0 {
		here.bytes = sizeHere(o.w.claim, o.p.volumes.before(o.s))
	}
	g := growthOf(o.w.claim, o.w.size, *here)
	switch {
	case g.bytes == 0, again && here.inUse:
		return
	case o.w.readOnly && again:
		return
	case o.w.readOnly:
		o.tell(corev1.EventTypeWarning, "FileSystemResizeFailed", fmt.Sprintf("MountVolume.NodeExpandVolume failed for volume %q requested read-only file system", o.w.spec))
		return
	}
	if err := o.grow(ctx, staged, g); err != nil {
		o.p.log.Warn("volume not expanded, it is tried again", "pod", o.w.pod.Namespace+"/"+o.w.pod.Name, "uid", o.w.pod.UID,
			"claim", o.w.claim.Name, "volume", o.w.spec, "bytes", g.bytes, "err", err)
		o.p.cfg.OnEvent(o.w.pod, nil, volume.Event{
			Type: corev1.EventTypeWarning, Reason: "VolumeResizeFailed",
			Message: fmt.Sprintf("NodeExpandVolume.NodeExpandVolume failed for volume %q : %v", o.w.spec, err),
		})
	}
}

// tell tells users of the pod and of the claim.
func (o *operation) tell(kind, reason, message string) {
	o.p.cfg.OnEvent(o.w.pod, o.w.claim, volume.Event{Type: kind, Reason: reason, Message: message})
}

// grow has the driver make a volume grow, and the claim say how it goes.
func (o *operation) grow(ctx context.Context, staged string, g growth) error {
	claim, err := o.w.claim, error(nil)
	if g.recovers && !g.elsewhere {
		if claim, err = o.patchClaim(ctx, claim, inProgress(claim)); err != nil {
			return err
		}
	}
	got, err := o.expandTo(ctx, staged, g.bytes)
	if err != nil {
		return errors.Join(err, o.refused(ctx, claim, g, err))
	}
	o.tell(corev1.EventTypeNormal, "FileSystemResizeSuccessful", fmt.Sprintf("MountVolume.NodeExpandVolume succeeded for volume %q %s", o.w.spec, o.p.cfg.Node))
	if !g.elsewhere {
		if _, err := o.patchClaim(ctx, claim, expanded(claim, got)); err != nil {
			return err
		}
	}
	o.s.grown = grown{bytes: max(got, o.w.size)}
	return nil
}

// expandTo has the driver make a volume grow to a number of bytes, or more.
func (o *operation) expandTo(ctx context.Context, staged string, bytes int64) (got int64, err error) {
	secrets, err := o.secrets(ctx, "NodeExpandSecretRef", o.w.expandSecret)
	if err != nil {
		return 0, err
	}
	err = o.d.call(ctx, "NodeExpandVolume", o.w.id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
		answer, err := c.NodeExpandVolume(ctx, &csiapi.NodeExpandVolumeRequest{
			VolumeId: o.w.id.handle, VolumePath: o.target(), StagingTargetPath: staged,
			CapacityRange: &csiapi.CapacityRange{RequiredBytes: bytes}, VolumeCapability: o.w.capability(o.d.can, nil), Secrets: secrets,
		})
		got = max(bytes, answer.GetCapacityBytes())
		return err
	})
	return got, err
}

// refused notes that a volume did not grow, and has the claim say why, if the driver has
// said so for sure and somebody follows what the claim says.
func (o *operation) refused(ctx context.Context, claim *corev1.PersistentVolumeClaim, g growth, why error) error {
	failed, ok := errors.AsType[*CallError](why)
	if !ok || !final(why) {
		return nil
	}
	code := status.Code(failed.Err)
	o.s.grown.failed, o.s.grown.inUse = true, code == codes.FailedPrecondition
	if !g.recovers {
		return nil
	}
	_, err := o.patchClaim(ctx, claim, notExpanded(claim, why, g.last || hopeless(code)))
	return err
}

// hopeless reports whether a driver says by a code that a volume can never have a size.
func hopeless(code codes.Code) bool {
	return code == codes.InvalidArgument || code == codes.OutOfRange || code == codes.NotFound
}
