package csi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	csiapi "github.com/container-storage-interface/spec/lib/go/csi"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// wanted is a volume as a pod wants it, with all that objects of the API say about it.
type wanted struct {
	pod       *corev1.Pod
	id        volumeID
	name      string // what the pod calls it
	spec      string // what directories are named after
	lifecycle storagev1.VolumeLifecycleMode
	readOnly  bool
	block     bool
	fsType    string
	modes     []corev1.PersistentVolumeAccessMode
	options   []string // for mount(8)
	gid       string   // the group that users of the volume have to be of, empty for none
	// attributes are what who made the volume tells the driver.
	attributes                               map[string]string
	stageSecret, publishSecret, expandSecret *corev1.SecretReference
	// claim is nil for volumes that live with their pod.
	claim *corev1.PersistentVolumeClaim
	size  int64 // bytes that the volume shall have, 0: not known
}

// wanted says what a pod wants of a persistent volume of a driver.
func (b *bound) wanted() (wanted, error) {
	pv, source := b.pv, b.pv.Spec.CSI
	w := wanted{
		pod: b.pod, name: b.volume.Name, claim: b.claim,
		id:            volumeID{driver: source.Driver, handle: source.VolumeHandle},
		spec:          pv.Name,
		lifecycle:     storagev1.VolumeLifecyclePersistent,
		readOnly:      b.readOnly(),
		block:         b.block(),
		fsType:        source.FSType,
		modes:         pv.Spec.AccessModes,
		options:       pv.Spec.MountOptions,
		gid:           b.gid(),
		attributes:    source.VolumeAttributes,
		stageSecret:   source.NodeStageSecretRef,
		publishSecret: source.NodePublishSecretRef,
		expandSecret:  source.NodeExpandSecretRef,
	}
	if size, ok := pv.Spec.Capacity[corev1.ResourceStorage]; ok {
		w.size = size.Value()
	}
	return w, w.check()
}

// fromPod says what a pod wants of a volume that lives with it.
func fromPod(pod *corev1.Pod, v *corev1.Volume) (wanted, error) {
	source := v.CSI
	w := wanted{
		pod:        pod,
		name:       v.Name,
		id:         volumeID{driver: source.Driver, handle: inlineHandle(pod.UID, v.Name)},
		spec:       v.Name,
		lifecycle:  storagev1.VolumeLifecycleEphemeral,
		readOnly:   source.ReadOnly != nil && *source.ReadOnly,
		modes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		attributes: source.VolumeAttributes,
	}
	if source.FSType != nil {
		w.fsType = *source.FSType
	}
	if ref := source.NodePublishSecretRef; ref != nil {
		w.publishSecret = &corev1.SecretReference{Name: ref.Name, Namespace: pod.Namespace}
	}
	return w, w.check()
}

func (w *wanted) check() error {
	switch {
	case !segment(w.spec):
		return fmt.Errorf("%q cannot be the name of a volume", w.spec)
	case !segment(string(w.pod.UID)):
		return fmt.Errorf("%q cannot be the UID of a pod", w.pod.UID)
	}
	return w.id.check()
}

// record is what is kept beside what is published.
func (w *wanted) record(node string) record {
	r := record{
		Spec: w.spec, Handle: w.id.handle, Driver: w.id.driver, Node: node,
		Attachment: attachment(w.id, node), Lifecycle: w.lifecycle,
	}
	if w.block {
		r.Lifecycle = "" // none lives with a pod
	} else if w.claim != nil {
		r.Volume, r.Group = w.name, w.gid
	}
	return r
}

// capability is how the volume shall be usable. group is who shall own it, by a driver
// that sees to that itself.
func (w *wanted) capability(c capabilities, group *int64) *csiapi.VolumeCapability {
	mode := corev1.ReadWriteOnce
	if len(w.modes) > 0 {
		mode = w.modes[0]
	}
	out := &csiapi.VolumeCapability{AccessMode: &csiapi.VolumeCapability_AccessMode{Mode: accessMode(mode, c.multiWriter)}}
	if w.block {
		out.AccessType = &csiapi.VolumeCapability_Block{Block: &csiapi.VolumeCapability_BlockVolume{}}
		return out
	}
	mount := &csiapi.VolumeCapability_MountVolume{FsType: w.fsType, MountFlags: w.options}
	if group != nil && c.group {
		mount.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	out.AccessType = &csiapi.VolumeCapability_Mount{Mount: mount}
	return out
}

// accessMode translates an access mode. Drivers that know of several writers on one node
// are told whether there may be some
// (https://kubernetes.io/docs/concepts/storage/persistent-volumes/#access-modes).
func accessMode(m corev1.PersistentVolumeAccessMode, multiWriter bool) csiapi.VolumeCapability_AccessMode_Mode {
	switch m {
	case corev1.ReadWriteOnce:
		if multiWriter {
			return csiapi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		}
		return csiapi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case corev1.ReadWriteOncePod:
		if multiWriter {
			return csiapi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		}
		return csiapi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
	case corev1.ReadOnlyMany:
		return csiapi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case corev1.ReadWriteMany:
		return csiapi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	}
	return csiapi.VolumeCapability_AccessMode_UNKNOWN
}

// Keys of what drivers are told in the context of a volume
// (https://kubernetes-csi.github.io/docs/pod-info.html and token-requests.html).
const (
	keyPodName   = "csi.storage.k8s.io/pod.name"
	keyNamespace = "csi.storage.k8s.io/pod.namespace"
	keyPodUID    = "csi.storage.k8s.io/pod.uid"
	keyAccount   = "csi.storage.k8s.io/serviceAccount.name"
	keyEphemeral = "csi.storage.k8s.io/ephemeral"
	keyTokens    = "csi.storage.k8s.io/serviceAccount.tokens" //nolint:gosec // a key, not a secret
)

// context is what the driver is told about the volume, and about the pod if it wants
// that.
func (w *wanted) context(r rules) map[string]string {
	out := maps.Clone(w.attributes)
	if out == nil {
		out = map[string]string{}
	}
	if r.podInfo {
		out[keyPodName], out[keyNamespace], out[keyPodUID] = w.pod.Name, w.pod.Namespace, string(w.pod.UID)
		out[keyAccount] = w.pod.Spec.ServiceAccountName
		out[keyEphemeral] = strconv.FormatBool(w.lifecycle == storagev1.VolumeLifecycleEphemeral)
	}
	return out
}

// group returns the group that the pod wants its volumes to be of.
func (w *wanted) group() *int64 {
	if w.pod.Spec.SecurityContext == nil {
		return nil
	}
	return w.pod.Spec.SecurityContext.FSGroup
}

// ownership is how a volume is given to a group.
type ownership struct {
	group int64
	// onRootMismatch: only if the root of the volume is not the group's yet.
	onRootMismatch bool
}

// ownership says how the agent has to give the volume to the group of the pod, nil for
// not at all.
func (w *wanted) ownership(r rules, c capabilities) *ownership {
	gid := w.group()
	if gid == nil || w.readOnly || w.block || c.group || r.group == storagev1.NoneFSGroupPolicy {
		return nil
	}
	if r.group != storagev1.FileFSGroupPolicy && (w.fsType == "" || !writtenByOne(w.modes)) {
		return nil
	}
	policy := w.pod.Spec.SecurityContext.FSGroupChangePolicy
	return &ownership{group: *gid, onRootMismatch: policy != nil && *policy == corev1.FSGroupChangeOnRootMismatch}
}

// writtenByOne reports whether no other node writes the volume.
func writtenByOne(modes []corev1.PersistentVolumeAccessMode) bool {
	return slices.Contains(modes, corev1.ReadWriteOnce) || slices.Contains(modes, corev1.ReadWriteOncePod)
}
