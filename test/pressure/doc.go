// Package pressure has pods take more than they may, on a node that runs in this process
// with a real container runtime, and says what has to become of them. The same facts hold
// with control groups of version 1 and 2, so that they are checked on this machine
// (test/node) and in a guest of hack/vm (test/guest).
//
// Its pods come from a source that is no folder of manifests: static pods are never
// evicted.
package pressure
