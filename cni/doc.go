// Package cni runs CNI plugins: it loads and watches network configurations, adds
// pods to networks and removes them, and cleans up what a crash left behind.
//
//	network, err := cni.Load("/etc/cni/net.d")
//	...
//	invoker, err := cni.New(cni.Config{BinDirs: []string{"/opt/cni/bin"}, StateDir: "/var/lib/agent/cni"})
//	...
//	pod := cni.Attachment{ContainerID: "4c1e", IfName: "eth0", NetNS: "/run/netns/4c1e"}
//	result, err := invoker.Add(ctx, network, pod)
//	...
//	err = invoker.Del(ctx, network, pod)
//
// A record of each attachment is on disk before the first plugin runs. A failed
// ADD is undone by DEL; after a crash or a power cut GC, or a DEL of the same
// attachment, does so with the configuration that ADD used. A Watcher follows
// the directory of configurations and says why there is no network.
//
// It is for runtimes and agents that make their own sandboxes; a kubelet leaves
// CNI to its runtime. It is no plugin, and it speaks CNI 0.3.0 to 1.1.0 only.
//
// An Invoker may be used from any goroutine. Operations on one container run one
// after the other, others in parallel; GC runs alone, also among processes with
// the same StateDir. Plugins run with the privileges of the process, as root in
// nearly every case. Linux only.
package cni
