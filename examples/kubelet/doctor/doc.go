// Package doctor looks at a node and says what is wrong with it: what people look at by hand
// when a node is not ready. It is the command `kubelet doctor`.
//
//	findings := doctor.Examine(ctx, doctor.Node{Kubelet: kubelet, Name: "node-a", Kubeconfig: "/etc/kubernetes/kubelet.conf"})
//	err := doctor.WriteText(os.Stdout, findings)
//
// Each check is small, looks at one thing, has a few seconds, and runs beside the others: a
// check that hangs is a finding and delays none. Nothing is changed: no file is written, no
// container made, and of the API server only its own Node and Lease are asked for.
//
// Examine may be called from any goroutine. It needs root for the runtime's socket, for the
// keys of certificates and for the names of programs that hold ports; what it may not see it
// says.
package doctor
