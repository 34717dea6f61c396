// Package images has the images of pods on the node when their containers start: by
// pull policy, with the credentials of the pod and of the node, pulling each image once
// for all pods that wait for it, a bounded number at a time, and not too soon after a
// failure.
//
// It does not pull by itself, which is the runtime's job, and starts no containers.
// Removing images is for package gc; finding credentials for registryauth; remembering
// who pulled what for pullrecord.
//
// The smallest use, with a client of a runtime:
//
//	m, err := images.New(client, images.Config{})
//	if err != nil {
//		return err
//	}
//	image, err := m.ForContainer(ctx, pod, &pod.Spec.Containers[0], sandboxConfig)
//
// image.Id is what CreateContainer wants. An error is an *Error: it has the reason that
// a waiting container shows, and when it makes sense to try again.
//
// A Manager is safe for use by many goroutines, and one slow image delays only those
// who need it. It needs no privileges of its own; what it remembers of back-offs is lost
// with the process.
package images
