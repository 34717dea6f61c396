// Package joined tests a cluster whose nodes run this repository's kubelet: its pods while
// kubelets, runtimes, the API server and a whole machine end and come back. It has tests
// only; they need root and Kubernetes' programs (package test/cluster).
package joined
