// Package testnode makes a private node on this machine for demos and tests: a
// network namespace of its own and in it a containerd with its own folder,
// socket, CNI configuration and control groups. Programs under test run in that
// namespace, so two nodes side by side, the host's runtime and the host's packet
// rules never meet.
//
//	node, err := testnode.Start(ctx, testnode.Config{Name: "demo", Logs: "_out/demo"})
//	if err != nil { … }
//	defer node.Stop(ctx)
//	err = node.ImportImage(ctx, testnode.Web())
//	kubelet, err := node.StartKubelet(ctx, "/path/to/kubelet")
//
// Everything a node makes carries its name, and all of it can be found from that
// name alone: processes by their network namespace and control group, mounts by
// their path. [Node.Stop] therefore removes the same things as [Clean], which
// removes what a killed program left behind; [Start] does so before it begins.
//
// The package is for this repository: it needs root, Linux with veth and
// nf_tables, the go command, and, for packages that are missing, apt-get. It is
// not API. A Node's methods may be called from several goroutines, except Stop
// and Keep, which end its life.
package testnode
