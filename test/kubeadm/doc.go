// Package kubeadm joins a machine with this repository's kubelet to a cluster as people do:
// by kubeadm, with a bootstrap token. It has tests only; they need root and Kubernetes'
// programs (package test/cluster).
package kubeadm
