// Package secured has a node of ours get its certificates from a cluster, and asks its API
// with and without rights.
package secured
