// Package allocatable is the part for a node's resources: Allocatable is Capacity
// without what is reserved and what eviction keeps free. It holds no code of its
// own; what there is stands in its sub-package:
//
//	config  loads a KubeletConfiguration and reports what it holds in vain
package allocatable
