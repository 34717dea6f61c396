// Package guest holds the tests that need a kernel of their own, with a container
// runtime in it: they run in a guest of hack/vm, where make test-vm puts them.
package guest
