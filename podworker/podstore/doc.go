// Package podstore keeps the specs of a node's API pods on the disk, so that after a
// reboot with the API server away the node runs its pods again.
//
// It is not for static pods, whose manifests are on the disk anyway, keeps no statuses
// but the fact that a pod has ended, and decides about no container: it says what ran
// here, and until when each pod may be started.
//
//	store, err := podstore.Open(podstore.Config{Dir: "/var/lib/kubelet/pod-store"})
//	// err tells of entries that are damaged; store is nil only without a directory.
//	recalled := store.Recall()            // at the start, while the API server is silent
//	if ok, until := recalled.MayStart(pod, time.Now()); ok { … }
//	err = store.Replace(pods)             // each whole set of the API server
//	err = store.Ended(uid)                // before anybody is told that a pod has ended
//	err = store.Contact(time.Now())       // the API server has heard of this node
//
// A node that its cluster cannot reach loses its pods to other nodes: each as soon as its
// toleration of the taint node.kubernetes.io/unreachable runs out. So the store remembers
// when the cluster last heard of the node, and a pod whose time is over is not started.
//
// ConfigMaps that the pods refer to are kept with them. Secrets are kept only sealed, by a
// [Sealer] such as a TPM or systemd-creds; tokens of service accounts never.
//
// Each write is crash-safe, and each file has a checksum: a damaged one is put aside. A
// Store is safe for use by many goroutines. It needs no privileges but to write in its
// directory, which should be root's alone.
package podstore
