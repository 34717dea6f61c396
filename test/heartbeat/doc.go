// Package heartbeat tests that a cluster knows how a node is that runs this repository's
// kubelet: its Node object, its conditions and its Lease, while parts of the node and of
// the control plane fail. It has tests only; they need root and Kubernetes' programs
// (package test/cluster).
package heartbeat
