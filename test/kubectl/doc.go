// Package kubectl tests what people do with kubectl on the pods of a node that runs this
// repository's kubelet: logs, exec, attach, cp, port-forward and debug, through the API server
// to the kubelet's HTTPS API and the runtime's streams, over SPDY and over WebSocket. It has
// tests only; they need root and Kubernetes' programs (package test/cluster).
package kubectl
