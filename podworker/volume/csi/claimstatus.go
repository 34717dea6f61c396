package csi

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// patchClaim has the status of a claim be another one, where the two differ in what a node
// may write, and returns the claim as it is then. It is a conflict if somebody else changed
// the claim meanwhile.
func (o *operation) patchClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, to corev1.PersistentVolumeClaimStatus) (*corev1.PersistentVolumeClaim, error) {
	patch, err := claimPatch(claim, to)
	if err != nil || patch == nil {
		return claim, err
	}
	now, err := o.p.cfg.API.Claims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return nil, fmt.Errorf("patch the status of PVC %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return now, nil
}

// claimPatch is the merge patch for patchClaim, nil for none.
func claimPatch(claim *corev1.PersistentVolumeClaim, to corev1.PersistentVolumeClaimStatus) ([]byte, error) {
	status, from := map[string]any{}, &claim.Status
	if was, is := from.Capacity[corev1.ResourceStorage], to.Capacity[corev1.ResourceStorage]; was.Cmp(is) != 0 {
		status["capacity"] = map[string]any{string(corev1.ResourceStorage): is}
	}
	if !slices.Equal(from.Conditions, to.Conditions) {
		status["conditions"] = to.Conditions
	}
	if was, is := from.AllocatedResourceStatuses[corev1.ResourceStorage], to.AllocatedResourceStatuses[corev1.ResourceStorage]; was != is {
		status["allocatedResourceStatuses"] = map[string]any{string(corev1.ResourceStorage): orNull(is)}
	}
	if len(status) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": claim.ResourceVersion}, "status": status})
}

// orNull is what stands for a status in a merge patch: null removes it.
func orNull(s corev1.ClaimResourceStatus) any {
	if s == "" {
		return nil
	}
	return s
}

// inProgress is the status of a claim whose volume a node makes grow.
func inProgress(claim *corev1.PersistentVolumeClaim) corev1.PersistentVolumeClaimStatus {
	out := *claim.Status.DeepCopy()
	setResize(&out, corev1.PersistentVolumeClaimNodeResizeInProgress)
	return out
}

// expanded is the status of a claim whose volume has a size, in bytes.
func expanded(claim *corev1.PersistentVolumeClaim, bytes int64) corev1.PersistentVolumeClaimStatus {
	out := *claim.Status.DeepCopy()
	out.Capacity[corev1.ResourceStorage] = *resource.NewQuantity(bytes, resource.BinarySI)
	delete(out.AllocatedResourceStatuses, corev1.ResourceStorage)
	out.Conditions = slices.DeleteFunc(out.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool { return resizing(c.Type) })
	return out
}

// notExpanded is the status of a claim whose volume does not grow. last: nor will it.
func notExpanded(claim *corev1.PersistentVolumeClaim, why error, last bool) corev1.PersistentVolumeClaimStatus {
	out := *claim.Status.DeepCopy()
	if last {
		setResize(&out, corev1.PersistentVolumeClaimNodeResizeInfeasible)
	}
	c := corev1.PersistentVolumeClaimCondition{
		Type: corev1.PersistentVolumeClaimNodeResizeError, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Message: fmt.Sprintf("failed to expand pvc with %v", why),
	}
	at := slices.IndexFunc(out.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimNodeResizeError
	})
	if at < 0 {
		out.Conditions = append(out.Conditions, c)
		return out
	}
	if before := out.Conditions[at]; before.Status == c.Status {
		c.LastTransitionTime = before.LastTransitionTime
	}
	out.Conditions[at] = c
	return out
}

// setResize sets how far a claim is with its volume.
func setResize(to *corev1.PersistentVolumeClaimStatus, s corev1.ClaimResourceStatus) {
	if to.AllocatedResourceStatuses == nil {
		to.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{}
	}
	to.AllocatedResourceStatuses[corev1.ResourceStorage] = s
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
