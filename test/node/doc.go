// Package node holds tests only: the example kubelet and kube-proxy on a private
// node with a real containerd, seen from outside, by their files, sockets,
// signals and packets. They need root and the packages that testnode.Missing
// names; without them they are skipped, or fail where REQUIRE_KERNEL=1 says that
// they must run.
package node
