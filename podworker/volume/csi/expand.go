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

// grows reports whether the volume may have to be made larger on this node.
func (o *operation) grows() bool {
	return o.d.can.expand && o.w.claim != nil && !o.w.readOnly
}

// expand has the driver make a volume as large as the persistent volume says, when the
// claim says that it is smaller. A failure does not keep a pod from what it has: it is
// logged, and tried again when the volume is looked at next.
func (o *operation) expand(ctx context.Context, staged string) {
	if !o.grows() || !smaller(o.w.claim, o.w.size) {
		return
	}
	if err := o.expandTo(ctx, staged); err != nil {
		o.p.log.Warn("volume not expanded, it is tried again", "pod", o.w.pod.Namespace+"/"+o.w.pod.Name, "uid", o.w.pod.UID,
			"claim", o.w.claim.Name, "volume", o.w.spec, "bytes", o.w.size, "err", err)
	}
}

// smaller reports whether a claim has a size, and less than a number of bytes.
func smaller(claim *corev1.PersistentVolumeClaim, size int64) bool {
	has, ok := claim.Status.Capacity[corev1.ResourceStorage]
	return ok && has.Value() < size && !infeasible(claim)
}

// infeasible reports whether the driver has said that the size cannot be had.
func infeasible(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] == corev1.PersistentVolumeClaimNodeResizeInfeasible
}

func (o *operation) expandTo(ctx context.Context, staged string) error {
	secrets, err := o.secrets(ctx, "NodeExpandSecretRef", o.w.expandSecret)
	if err != nil {
		return err
	}
	got := o.w.size
	err = o.d.call(ctx, "NodeExpandVolume", o.w.id.handle, func(ctx context.Context, c csiapi.NodeClient) error {
		answer, err := c.NodeExpandVolume(ctx, &csiapi.NodeExpandVolumeRequest{
			VolumeId: o.w.id.handle, VolumePath: o.target(), StagingTargetPath: staged,
			CapacityRange: &csiapi.CapacityRange{RequiredBytes: o.w.size}, VolumeCapability: o.w.capability(o.d.can, nil), Secrets: secrets,
		})
		got = max(got, answer.GetCapacityBytes())
		return err
	})
	if err != nil {
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
