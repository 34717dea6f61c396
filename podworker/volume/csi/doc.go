// Package csi is the node's side of CSI: it has drivers stage and publish the persistent
// volumes of pods, and the volumes that live with a pod, and undo it again
// (https://github.com/container-storage-interface/spec).
//
//	p, err := csi.New(csi.Config{Node: "node-a", Root: "/var/lib/kubelet", API: api, Tokens: tokens})
//	go p.Run(ctx)
//	go p.Watch(ctx, "/var/lib/kubelet/plugins_registry") // drivers register themselves
//	mounted, err := p.SetUp(ctx, pod, &pod.Spec.Volumes[0])
//	err = p.TearDown(ctx, pod.UID)
//
// A Provider is a volume.Provider. What it does is written beside what it makes before
// the driver is called (vol_data.json, as the kubelet does): whoever runs next on this
// node, this package or a kubelet, finds it and can undo it. New reads what is there.
//
// Objects of the API are read by name, as a node may. How drivers want to be treated
// stands in their CSIDriver objects; the CSINode is kept by Run.
//
// Claims for persistent volumes that are places of the machine, of the kinds hostPath and
// local, are set up without a driver.
//
// # What it is not for
//
// It attaches nothing, makes no volumes and runs no drivers. Persistent volumes of other
// kinds than csi, hostPath and local are refused.
//
// # Safety
//
// A Provider may be used by many goroutines at once. Calls about one volume take turns,
// a call has a deadline, and one that hangs holds up the pods with that volume and nobody
// else. Nothing is removed that something is mounted on, and no directory that holds
// anything.
//
// It needs Linux, access to the sockets of the drivers and to Root, which on a real node
// is root.
package csi
