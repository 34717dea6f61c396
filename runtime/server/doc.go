// Package server is the HTTPS API that a cluster's API server expects of a node: the logs of
// containers, exec, attach, port-forward, the lists of pods, health, configuration,
// checkpoints and the logs of the machine, at the paths and with the answers of the kubelet.
//
// It is not a router for anything else, and it knows nobody: who may do what is decided by
// Config.Protect, without which every request is refused. It keeps no pods and runs no
// containers; both are behind small interfaces, so that any agent with any runtime can use
// it. For a CRI runtime, CRI is all of them at once.
//
// The smallest use, on a *runtime.Client:
//
//	cri, err := server.NewCRI(client, server.CRIConfig{})
//	s, err := server.New(server.Config{Pods: pods, Containers: cri.Containers(), Protect: auth})
//	err = s.ServeTLS(ctx, listener, &tls.Config{GetCertificate: certificate})
//
// Streams are not run here. The runtime says where it serves them, and the bytes go there and
// back; WebSockets of the protocols that runtimes do not speak, v5.channel.k8s.io and
// SPDY/3.1+portforward.k8s.io, are translated. What a client sends to prove who it is stays
// here.
//
// Sizes, times and numbers of everything that clients can make grow are bounded (Limits).
// Files of containers and of the machine are opened below their folder without following a
// link.
//
// A Server may be used by many goroutines at once. It needs the right to read the files of
// logs, and to reach the runtime's streaming server: usually root on the machine itself.
package server
