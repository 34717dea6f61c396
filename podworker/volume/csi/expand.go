package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// grown is how far a volume has grown on this node, of which the claim does not tell when
// several nodes have the volume.
type grown struct {
	bytes int64 // that it has here, 0: not known
}

// growth is what is to be done so that a volume has its size on this node.
type growth struct {
	bytes int64 // that it shall have, 0: nothing is to be done
	// elsewhere: the claim says already that it has them, by another node.
	elsewhere bool
}

// growthOf says how a volume of a claim has to grow on a node where it has grown as here
// says. size is what the persistent volume says, in bytes.
func growthOf(claim *corev1.PersistentVolumeClaim, size int64, here grown) growth {
	told, ok := claim.Status.Capacity[corev1.ResourceStorage]
	switch {
	case !ok || infeasible(claim):
		return growth{}
	case told.Value() < size:
		return growth{bytes: size}
	case here.bytes < size && eachNode(claim):
		return growth{bytes: size, elsewhere: true}
	}
	return growth{}
}

// infeasible reports whether the driver has said that the size cannot be had.
func infeasible(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizeInfeasible
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
// not keep a pod from what it has: it is logged, and tried again when the volume is looked
// at next.
func (o *operation) expand(ctx context.Context, staged string) {
	if !o.grows() {
		return
	}
	here := &o.s.grown
	if here.bytes == 0 {
		here.bytes = sizeHere(o.w.claim, o.p.volumes.before(o.s))
	}
	g := growthOf(o.w.claim, o.w.size, *here)
	if g.bytes == 0 {
		return
	}
	if err := o.expandTo(ctx, staged, g); err != nil {
		o.p.log.Warn("volume not expanded, it is tried again", "pod", o.w.pod.Namespace+"/"+o.w.pod.Name, "uid", o.w.pod.UID,
			"claim", o.w.claim.Name, "volume", o.w.spec, "bytes", g.bytes, "err", err)
		return
	}
	here.bytes = max(g.bytes, o.w.size)
}

// expandTo has the driver make a volume grow, and the claim say so.
func (o *operation) expandTo(ctx context.Context, staged string, g growth) error {
	secrets, err := o.secrets(ctx, "NodeExpandSecretRef", o.w.expandSecret)
	if err != nil {
		return err
	}
	got := g.bytes
	err = o.d.call(ctx, "NodeExpandVolume", o.w.id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
		answer, err := c.NodeExpandVolume(ctx, &csiapi.NodeExpandVolumeRequest{
			VolumeId: o.w.id.handle, VolumePath: o.target(), StagingTargetPath: staged,
			CapacityRange: &csiapi.CapacityRange{RequiredBytes: g.bytes}, VolumeCapability: o.w.capability(o.d.can, nil), Secrets: secrets,
		})
		got = max(got, answer.GetCapacityBytes())
		return err
	})
	if err != nil || g.elsewhere {
		return err
	}
	patch, err := expandedPatch(o.w.claim, got)
	if err != nil {
		return err
	}
	_, err = o.p.cfg.API.Claims(o.w.claim.Namespace).Patch(ctx, o.w.claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("patch the status of PVC %s/%s: %w", o.w.claim.Namespace, o.w.claim.Name, err)
	}
	return nil
}

// resizing are the conditions that end when a volume has its size.
func resizing(t corev1.PersistentVolumeClaimConditionType) bool {
	switch t {
	case corev1.PersistentVolumeClaimResizing, corev1.PersistentVolumeClaimFileSystemResizePending,
		corev1.PersistentVolumeClaimControllerResizeError, corev1.PersistentVolumeClaimNodeResizeError:
		return true
	}
	return false
}

// expandedPatch is the merge patch by which a claim says that it has a size.
func expandedPatch(claim *corev1.PersistentVolumeClaim, bytes int64) ([]byte, error) {
	conditions := slices.DeleteFunc(slices.Clone(claim.Status.Conditions), func(c corev1.PersistentVolumeClaimCondition) bool {
		return resizing(c.Type)
	})
	if conditions == nil {
		conditions = []corev1.PersistentVolumeClaimCondition{}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": claim.ResourceVersion},
		"status": map[string]any{
			"capacity":                  map[string]any{string(corev1.ResourceStorage): resource.NewQuantity(bytes, resource.BinarySI)},
			"conditions":                conditions,
			"allocatedResourceStatuses": map[string]any{string(corev1.ResourceStorage): nil},
		},
	})
}
