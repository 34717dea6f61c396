// Package storage tests that pods of a real cluster, on a node that runs this
// repository's kubelet, have the volumes of a CSI driver: over the death of the kubelet,
// with and without attachment, until nothing of them is left on the node. It has tests
// only; they need root and Kubernetes' programs (package test/cluster).
package storage
