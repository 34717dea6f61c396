// Package staticpods reads pods from manifests: a directory, one file, or a URL.
//
// A Source watches the path and delivers the whole set of pods after each change.
// A file that breaks keeps the pod that it last described, so that an editor, a
// half-written file or a typo stops nothing; Statuses says what became of each
// file, with line and reason. Decode is the pure half: bytes to a pod with the
// defaults of the API and of a static pod, or everything that is wrong with it.
//
//	source, err := staticpods.Dir("/etc/kubernetes/manifests", staticpods.Config{NodeName: "node-a"})
//	...
//	err = source.Run(ctx, func(set staticpods.Set) { ... })
//
// ConfigMaps and Secrets may stand beside the pods, in files of their own or as further
// documents of one; a pod may refer to these, and to no others.
//
// A Remote, made by URL, asks a server for a Pod or a PodList in the same way: an answer
// that is missing or broken changes nothing. Its pods refer to no objects.
//
// The package does not run pods, makes no mirror pods (staticpods/mirror does) and puts
// no objects into them.
//
// A Source or Remote runs once, in one goroutine besides the caller's; Statuses may be
// called from any. Reading the path is the only privilege it needs. A Source uses
// inotify where it can and looks every Period where it cannot.
package staticpods
