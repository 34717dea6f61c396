// Package podresources tells programs on the node which devices, CPUs and memory the
// containers of pods have: the kubelet's API k8s.io/kubelet/pkg/apis/podresources/v1 on a
// local socket. Exporters of metrics and CNI plugins of network cards ask there.
//
//	s, err := podresources.New(podresources.Config{Pods: pods, Devices: manager})
//	err = s.Run(ctx, listener) // on /var/lib/kubelet/pod-resources/kubelet.sock
//
// It decides nothing and keeps nothing: each answer is put together from what its Config
// names. Calls beyond 100 a second, after ten at once, are rejected, so that a client in a
// loop does not keep the node busy.
//
// A Server may be asked by many clients at once. Who can connect to the listener can read
// everything; on a node that is root.
package podresources
