// Package images makes the container images of the test cluster and of Kubernetes'
// end-to-end suites on this machine, without a container registry: Debian packages,
// programs of this repository and tools of its nested modules, packed as archives in
// the format of "docker save" that "ctr images import" and others read.
//
//	archive, err := images.Suites(ctx, images.Config{Progress: log.Println})
//	…
//	ctr --namespace k8s.io images import <archive>
//
// An archive holds several images that share their layers. It is made once per recipe
// and kept in ${XDG_CACHE_HOME:-~/.cache}/nodekit/images@<digest of the recipe>; the
// versions of the Debian packages are those of the day it was made.
//
// The images stand in for upstream's of the same name as far as the suites use them.
// They are no replacements for them otherwise, and must not leave the machine.
//
// The functions may be called from several goroutines and processes: the first one
// makes an archive, the others wait for it. [Suites] needs root, Debian, and the package
// debootstrap, which it installs. The package is for this repository and not API.
package images
