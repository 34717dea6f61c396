// Package pullrecord remembers on disk who pulled which image, so that a pod cannot use
// a private image only because another pod's credentials brought it to the node.
//
// It pulls nothing and reads no credentials: it compares hashes and names of secrets
// and service accounts. The files are those of the kubelet, which may go on with them
// and the other way round.
//
//	store, err := pullrecord.Open("/var/lib/kubelet/image_manager")
//	…
//	err = store.Begin("registry.example/web:1")           // before the pull
//	err = store.Done("registry.example/web:1", id, access) // after it
//	ok, err := store.Allows("registry.example/web:1", id, pullrecord.Verifier{}, podAccess)
//
// What Begin wrote survives a crash, and a pull whose end was not seen (Store.CutOff): an
// image that may have come by a pull that was cut off is not taken for one that was on the
// node before.
//
// A Store is safe for use by many goroutines; two processes must not use one directory.
// It needs no privileges but to write there.
package pullrecord
