// Package flows holds whole service proxies against the packet flows of proxiertest:
// kube-proxy as Kubernetes releases it in each of its modes, and ours. An API server
// of a few lines feeds them.
//
// The package is for this repository and not API. It needs root, and the tools of
// test/tools/kubernetes.
package flows
