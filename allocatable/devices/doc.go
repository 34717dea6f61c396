// Package devices hands the devices of a node out to containers. Device plugins say
// what there is and how a container gets at it, by the API v1beta1 of
// k8s.io/kubelet/pkg/apis/deviceplugin; a [Manager] decides who has what.
//
//	m, err := devices.New(devices.Config{Dir: "/var/lib/kubelet/device-plugins", Changed: wake})
//	places, err := topology.New(topology.Config{Providers: []topology.Provider{m}})
//	go m.Run(ctx)                          // the socket on which plugins register, and their lists
//	err = places.Admit(ctx, pod)           // when a pod is to start: who has what
//	err = m.Prepare(ctx, pod)              // how they get at it
//	extra, err := m.Container(ctx, pod, c) // before each of its containers is created
//	places.Release(pod.UID)                // when it has ended
//
// The decision is pure: a ledger of who has what, an inventory of what is offered, and a
// function that chooses. No lock is held over a call to a plugin or to the disk, so a
// plugin that hangs delays only the pods that ask for its devices. Who has what is on
// disk before Prepare returns, in the file and the format of a kubelet,
// kubelet_internal_checkpoint, so that either can go on where the other stopped.
//
// # What it is not for
//
// It starts no containers and watches no pods: it is told when pods come and go. It
// knows nothing of dynamic resource allocation (DRA). It does not choose the NUMA nodes from
// which a container has its devices: package topology does, whose provider it is.
//
// # Safety
//
// A Manager may be used by many goroutines. Config.Changed must not block. Access to
// the directory of the plugins' sockets is needed, on a real node that is root.
package devices
