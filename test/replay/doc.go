// Package replay holds tests only: the stories of podsync's testdata, lived by the stock
// kubelet as a node of a cluster, on a runtime that runs nothing. Where what has to hold
// in a story does not hold there, testdata/differences.txt says why. It needs root and
// the stock kubelet, which takes long to build: NODEKIT_LONG=1 asks for it. It takes a
// quarter of an hour, and a machine that has nothing else to do: the stories tell tenths
// of seconds.
package replay
