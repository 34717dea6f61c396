package csi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// bound is a persistent volume that a pod has by a claim.
type bound struct {
	pod    *corev1.Pod
	volume *corev1.Volume
	// name is that of the claim.
	name  string
	claim *corev1.PersistentVolumeClaim
	pv    *corev1.PersistentVolume
}

// failed says in the kubelet's words which claim an error is about; nil for nil.
func (b *bound) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("error processing PVC %s/%s: %w", b.pod.Namespace, b.name, err)
}

// readOnly reports whether the pod only wants to read. The volume itself does not say.
func (b *bound) readOnly() bool {
	return b.volume.PersistentVolumeClaim != nil && b.volume.PersistentVolumeClaim.ReadOnly
}

// groupOfVolume is the annotation of a persistent volume with the group that processes have to
// be of to use it (https://kubernetes.io/docs/tasks/configure-pod-container/configure-persistent-volume-storage/#access-control).
const groupOfVolume = "pv.beta.kubernetes.io/gid"

// gid is the group that users of the volume have to be of, as the volume says; empty for none.
func (b *bound) gid() string { return b.pv.Annotations[groupOfVolume] }

// group reads a group, nil for none. What is no number is ignored, as by the kubelet, and
// logged.
func (p *Provider) group(gid string) *int64 {
	if gid == "" {
		return nil
	}
	n, err := strconv.ParseInt(gid, 10, 64)
	if err != nil {
		p.log.Warn("group of a persistent volume is no number, pods do not get it", "annotation", groupOfVolume, "value", gid)
		return nil
	}
	return &n
}

// block reports whether containers get the device instead of a file system.
func (b *bound) block() bool {
	return b.pv.Spec.VolumeMode != nil && *b.pv.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// check reports whether the containers use the volume as what it is.
func (b *bound) check() error {
	mounts, devices := uses(b.pod, b.volume.Name)
	switch {
	case mounts && b.block():
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeMounts", b.volume.Name, corev1.PersistentVolumeBlock)
	case devices && !b.block():
		return fmt.Errorf("volume %s has volumeMode %s, but is specified in volumeDevices", b.volume.Name, corev1.PersistentVolumeFilesystem)
	}
	return nil
}

// errElsewhere says that a volume is not to be used on this node.
var errElsewhere = errors.New("no matching NodeSelectorTerms")

// belongsHere reports whether a volume may be used on this node, by its node affinity and
// the labels of the Node. The scheduler sees to that, but not for a pod that names its node.
func (p *Provider) belongsHere(ctx context.Context, pv *corev1.PersistentVolume) error {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return nil
	}
	node, err := p.cfg.API.Nodes.Get(ctx, p.cfg.Node, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read Node %s for the node affinity of PV %s: %w", p.cfg.Node, pv.Name, unlessMissing(err))
	}
	fits, err := nodeaffinity.NewLazyErrorNodeSelector(pv.Spec.NodeAffinity.Required).Match(node)
	if err == nil && !fits {
		err = errElsewhere
	}
	if err != nil {
		return fmt.Errorf("node affinity check of PV %s failed: %w", pv.Name, err)
	}
	return nil
}

// claimName returns the claim by which a pod has a volume, and whether it is the pod's
// own, which is made from the pod.
func claimName(pod *corev1.Pod, v *corev1.Volume) (name string, own bool) {
	if v.Ephemeral != nil {
		return pod.Name + "-" + v.Name, true
	}
	return v.PersistentVolumeClaim.ClaimName, false
}

// protection keeps a claim until no pod uses it
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#storage-object-in-use-protection).
const protection = "kubernetes.io/pvc-protection"

// checkClaim reports why a pod cannot have the volume of a claim, nil if it can.
func checkClaim(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim, own bool) error {
	switch {
	case claim.DeletionTimestamp != nil && !slices.Contains(claim.Finalizers, protection):
		return errors.New("PVC is being deleted")
	case claim.Status.Phase != corev1.ClaimBound:
		return errors.New("PVC is not bound")
	case claim.Spec.VolumeName == "":
		return errors.New("PVC has empty pvc.Spec.VolumeName")
	case own && !metav1.IsControlledBy(claim, pod):
		return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", claim.Namespace, claim.Name, pod.Namespace, pod.Name)
	}
	return nil
}

// checkVolume reports why a volume is not that of a claim, nil if it is.
func checkVolume(pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	switch ref := pv.Spec.ClaimRef; {
	case ref == nil:
		return fmt.Errorf("found PV object %s but it has a nil pv.Spec.ClaimRef indicating it is not yet bound to the claim", pv.Name)
	case ref.UID != claim.UID:
		return fmt.Errorf("found PV object %s but its pv.Spec.ClaimRef.UID %s does not point to claim.UID %s", pv.Name, ref.UID, claim.UID)
	}
	return nil
}

// uses reports how the containers of a pod use a volume.
func uses(pod *corev1.Pod, name string) (mounts, devices bool) {
	look := func(c *corev1.Container) {
		mounts = mounts || slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == name })
		devices = devices || slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == name })
	}
	for i := range pod.Spec.InitContainers {
		look(&pod.Spec.InitContainers[i])
	}
	for i := range pod.Spec.Containers {
		look(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		look(&c)
	}
	return mounts, devices
}
