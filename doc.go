// Package nodekit is the map of this module: importable parts of a Kubernetes
// worker node, and two example programs that wire them into a working kubelet
// and a working kube-proxy. The package holds no code.
//
//	runtime      CRI v1 client: sandboxes, containers, images, with typed errors
//	probes       probe engine: HTTP, TCP and exec probers, thresholds, scheduling
//	podworker    pod reconciler: one state machine per pod UID, three phases
//	staticpods   pods from a directory, a file or a URL, with a status per file
//	lease        the node's heartbeat: Lease keeper
//	allocatable  Allocatable = Capacity − reserved − eviction, explained
//	proxier      Services and EndpointSlices → desired state → kernel
//	cni          CNI invoker: ADD, DEL, CHECK, GC, STATUS with a result cache
//	examples     kubelet, kube-proxy, and one small program per package
//
// The parts never import each other. Where one needs something of another it
// states a small interface, and examples/kubelet/node and
// examples/kube-proxy/proxy prove that the types fit. docs/architecture.md has
// the directions, docs/adr the decisions behind them.
package nodekit
