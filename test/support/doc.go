// Package support holds tests only: what becomes of each field of the API objects that a
// node and its proxy read or write. They write docs/support.md, and show each of its
// claims: by taking a field away from an object that has it and looking for what
// changes, or by the name of a test that looks closer.
//
// A field that a later API brings fails them until somebody says what is done with it.
package support
