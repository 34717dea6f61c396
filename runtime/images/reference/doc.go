// Package reference reads names of container images, such as "web",
// "registry.example:5000/team/web:1.2" and "web@sha256:…", the way container
// runtimes do: without a registry the name is one of docker.io, without a path in
// docker.io it is in library/, without tag and digest the tag is latest.
//
// It does not ask registries and does not know which images exist.
//
//	ref, err := reference.Parse("web")
//	fmt.Println(ref.Repository(), ref.Tag) // docker.io/library/web latest
//
// Everything is a pure function or a plain value; it needs no privileges.
package reference
