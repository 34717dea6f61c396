// Package source has feeds for the proxier that need no API server.
//
// Dir watches a directory of ordinary Service and EndpointSlice manifests. Pods
// stands between a source of Services and the proxier: for Services with selectors
// it builds the EndpointSlices out of the pods that the local kubelet reports.
//
// It is not for a cluster: nothing here sees pods of other nodes, allocates a
// cluster IP or writes a status.
//
//	pods, err := source.NewPods("unix:///var/lib/kubelet/kubelet.sock", feed, source.PodsConfig{NodeName: "node-a"})
//	dir, err := source.NewDir("/etc/nodekit/services", pods, source.DirConfig{})
//	...
//	go pods.Run(ctx)
//	err = dir.Run(ctx)
//
// All types are safe for concurrent use. The process needs to be able to read the
// directory and to connect to the kubelet's socket.
package source
