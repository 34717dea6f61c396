// Package informer feeds a proxier from a Kubernetes API server: Services,
// EndpointSlices, the own Node and the ranges of cluster IPs.
//
// Objects are handed over as they come off the wire and are not kept: what stays
// in memory is their names, to find out after a lost connection what was deleted
// meanwhile. Where the server can (Kubernetes 1.32 and later by default), the
// first state is streamed and never in memory as a whole
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/3157-watch-list);
// else it is listed in pages.
//
// It is not a cache: there is nothing to read from, and Sink is called once for
// each event.
//
//	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
//	...
//	s, err := informer.New(config, p.Feed("API server"), informer.Config{NodeName: "node-a"})
//	...
//	err = s.Run(ctx)
//
// The user needs the rights of the ClusterRole system:node-proxier: list and watch
// services, endpointslices, nodes and servicecidrs. A Source runs once. Its calls
// of Sink, OnNode and OnServiceCIDRs come from several goroutines.
package informer
