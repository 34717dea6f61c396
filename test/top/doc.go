// Package top tests that a cluster knows how much a node and its pods use that runs this
// repository's kubelet: metrics-server asks the kubelet, over HTTPS and by its own rights,
// and kubectl top asks metrics-server. It has tests only; they need root, Kubernetes'
// programs (package test/cluster) and metrics-server.
package top
