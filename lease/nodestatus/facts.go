package nodestatus

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Facts are what a node knows of itself.
type Facts struct {
	// Status has the facts in the fields that the API has for them. Conditions are not
	// taken from it: Update makes them. What is nil or empty is not known, and stays as
	// it was; but VolumesInUse that are empty and not nil say that there are none.
	//
	// Capacity has the machine's resources, Allocatable the part of them for pods;
	// others that the Node has, put there by somebody else, stay. Huge pages that are
	// not in it are gone. Images may be in any order and number.
	Status corev1.NodeStatus
	// Provisional says that the addresses are for a Node that has none: a cloud
	// controller sets them, and those that it has set stay.
	Provisional bool
	// MaxImages is how many images are reported; 0: DefaultMaxImages, negative: all.
	MaxImages int
	// ProvidedIPs are the addresses of --node-ip for an external cloud provider, which
	// reads them from an annotation; empty: the annotation is removed.
	ProvidedIPs string
	// NoLocalStorage says that the node offers no ephemeral-storage: Ready does not ask for
	// it, and what an earlier report told of it is gone.
	NoLocalStorage bool
	// GoingDown says that the machine is going down: a Node that was deleted is not
	// registered again.
	GoingDown bool

	notReady          []string
	memory, disk, pid bool
}

// NotReady returns the facts with reasons why the node is not ready. A Reporter asks
// Config.NotReady for them.
func (f Facts) NotReady(reasons ...string) Facts {
	f.notReady = append(slices.Clone(f.notReady), reasons...)
	return f
}

// UnderPressure returns the facts with what is short. A Reporter asks Config.Pressures.
func (f Facts) UnderPressure(p Pressures) Facts {
	f.memory, f.disk, f.pid = p.MemoryPressure(), p.DiskPressure(), p.PIDPressure()
	return f
}

const (
	// DefaultMaxImages is the kubelet's nodeStatusMaxImages
	// (kubelet.config.k8s.io/v1beta1).
	DefaultMaxImages = 50
	// maxNames is how many names of one image a status has, as in the kubelet.
	maxNames = 5
)

// TopImages returns the largest images, each with five names at most; a limit that is
// negative means all. Images of one size are in the order of their names.
func TopImages(images []corev1.ContainerImage, limit int) []corev1.ContainerImage {
	sorted := slices.Clone(images)
	slices.SortStableFunc(sorted, func(a, b corev1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	if limit >= 0 && limit < len(sorted) {
		sorted = sorted[:limit]
	}
	for i := range sorted {
		sorted[i].Names = slices.Clone(sorted[i].Names[:min(maxNames, len(sorted[i].Names))])
	}
	return sorted
}
