package csi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Names of the kubelet's, by which another agent finds what this one made
// (https://kubernetes.io/docs/reference/node/kubelet-files/).
const (
	pluginName  = "kubernetes.io/csi"
	escapedName = "kubernetes.io~csi"
	recordFile  = "vol_data.json"
	mountDir    = "mount"
	globalMount = "globalmount"
	blockDir    = "volumeDevices"

	localName    = "kubernetes.io/local-volume"
	escapedLocal = "kubernetes.io~local-volume"
	deviceMounts = "mounts"
)

// paths are those below the root of an agent.
type paths struct{ root string }

func (p paths) pods() string { return filepath.Join(p.root, "pods") }

// volumes is the directory with the file systems of a pod.
func (p paths) volumes(uid types.UID) string {
	return filepath.Join(p.pods(), string(uid), "volumes", escapedName)
}

// target is where a driver publishes a file system to a pod; the record is beside it.
func (p paths) target(uid types.UID, spec string) string {
	return filepath.Join(p.volumes(uid), spec, mountDir)
}

// devices is the directory with links to the block devices of a pod.
func (p paths) devices(uid types.UID) string {
	return filepath.Join(p.pods(), string(uid), blockDir, escapedName)
}

// locals is the directory with the local volumes of a pod.
func (p paths) locals(uid types.UID) string {
	return filepath.Join(p.pods(), string(uid), "volumes", escapedLocal)
}

// local is where a local volume is bound for a pod.
func (p paths) local(uid types.UID, spec string) string { return filepath.Join(p.locals(uid), spec) }

// localDevice is where a local device is mounted for all pods of the node.
func (p paths) localDevice(spec string) string {
	return filepath.Join(p.root, "plugins", localName, deviceMounts, spec)
}

func (p paths) plugin() string { return filepath.Join(p.root, "plugins", pluginName) }

// staging is where a driver stages a file system for all pods of the node; the record is
// beside it.
func (p paths) staging(id volumeID) string {
	return filepath.Join(p.plugin(), id.driver, fmt.Sprintf("%x", sha256.Sum256([]byte(id.handle))), globalMount)
}

func (p paths) blockStaging(spec string) string {
	return filepath.Join(p.plugin(), blockDir, "staging", spec)
}

// blockTarget is where a driver publishes a block device to a pod.
func (p paths) blockTarget(uid types.UID, spec string) string {
	return filepath.Join(p.blockTargets(spec), string(uid))
}

func (p paths) blockTargets(spec string) string {
	return filepath.Join(p.plugin(), blockDir, "publish", spec)
}

// block is the directory of a block device for all pods: dev has what other agents
// mount, data has the record.
func (p paths) block(spec string) string { return filepath.Join(p.plugin(), blockDir, spec) }

func (p paths) blockData(spec string) string { return filepath.Join(p.block(spec), "data") }

// volumeID is what makes a volume one on a node, however many pods use it.
type volumeID struct{ driver, handle string }

// unique is the name of the volume in the status of a Node.
func (id volumeID) unique() corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(pluginName + "/" + id.driver + "^" + id.handle)
}

func (id volumeID) String() string { return id.handle + " of " + id.driver }

// attachment is the name of the VolumeAttachment of a volume and a node.
func attachment(id volumeID, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(id.handle+id.driver+node)))
}

// inlineHandle is the handle of a volume that lives with its pod.
func inlineHandle(uid types.UID, name string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(uid)+name)))
}

// check refuses what cannot be a driver and a handle, and would lead to other places of
// the disk.
func (id volumeID) check() error {
	switch {
	case !segment(id.driver) || id.driver == blockDir:
		return fmt.Errorf("%q cannot be the name of a driver", id.driver)
	case id.handle == "":
		return errors.New("the handle of the volume is empty")
	}
	return nil
}

// segment reports whether a name can be one element of a path.
func segment(name string) bool {
	const longest = 255 // NAME_MAX of limits.h
	return name != "" && len(name) <= longest && name != "." && name != ".." && !strings.ContainsAny(name, "/\x00")
}
