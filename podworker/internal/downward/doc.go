// Package downward finds what a pod may know of itself: the values of fieldRefs and
// resourceFieldRefs (https://kubernetes.io/docs/concepts/workloads/pods/downward-api/).
// Variables and volumes show them. Everything in it is pure.
package downward
