package eviction

import corev1 "k8s.io/api/core/v1"

// Disks says which of a node's data share a file system. The zero value is one file
// system for everything.
type Disks int

// How the data of a node may be laid out.
const (
	// OneDisk has volumes, logs, images and what containers write on one file system.
	OneDisk Disks = iota
	// ImagesApart has images and what containers write on a file system of their own.
	ImagesApart
	// ImagesSplit has images alone on a file system; containers write to that of the
	// volumes and logs.
	ImagesSplit
)

// part is something that pods use disk space for.
type part int

const (
	rootfs part = 1 << iota
	logs
	volumes
)

// counted says what of a pod takes from the file system of a signal.
func (d Disks) counted(s Signal) part {
	nodefs := s == NodeFSAvailable || s == NodeFSInodesFree
	imagefs := s == ImageFSAvailable || s == ImageFSInodesFree
	switch {
	case d == ImagesApart && nodefs:
		return logs | volumes
	case d == ImagesApart:
		return rootfs
	case d == ImagesSplit && imagefs:
		return 0 // images are nobody's
	}
	return rootfs | logs | volumes
}

// frees says what can be removed for a signal without ending a pod, in order.
func (d Disks) frees(s Signal) []Freeable {
	if s.Condition() != corev1.NodeDiskPressure {
		return nil
	}
	nodefs := s == NodeFSAvailable || s == NodeFSInodesFree
	imagefs := s == ImageFSAvailable || s == ImageFSInodesFree
	switch {
	case d == ImagesApart && nodefs:
		return nil
	case d == ImagesSplit && imagefs:
		return []Freeable{UnusedImages}
	case d == ImagesSplit:
		return []Freeable{DeadContainers}
	}
	return []Freeable{DeadContainers, UnusedImages}
}
