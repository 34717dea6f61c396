// Package cluster runs a Kubernetes cluster on this machine for tests: etcd and
// Kubernetes' own control plane in one network namespace, and nodes that are
// namespaces of their own, each with a containerd, a kubelet and a kube-proxy:
// those that Kubernetes releases, or those of this repository.
//
//	c, err := cluster.Start(ctx, cluster.Config{Logs: logs, Nodes: 2})
//	if err != nil { … }
//	defer c.Stop(ctx)
//	out, err := c.Kubectl(ctx, "", "get", "nodes")
//	err = c.APIServer().Stop()        // and every other program: Start, Stop, Kill
//	err = c.Node(0).Kubelet().Kill()
//
// The programs authenticate as on a real cluster: kubelets as system:node:<name>
// under the Node authorizer and NodeRestriction, kube-proxy as system:kube-proxy.
// Only tests and people use the administrator's kubeconfig.
//
// Addresses, ports and paths are those of a real node and mean nothing outside the
// cluster's namespaces, so that clusters run side by side. Each part is a
// [testnode.Node]: what a killed program leaves, the next start or [testnode.Clean]
// removes. A client reaches the API server from [Cluster.Plane] only: by its
// Command, or with its Dial in a client's transport.
//
// The package is for this repository and not API. It needs root, Linux, the
// packages that [Prepare] installs and the tools of test/tools, which hack/tool.sh
// builds once per machine. All methods may be called from several goroutines,
// except Stop and Keep, which end a cluster's life.
package cluster
