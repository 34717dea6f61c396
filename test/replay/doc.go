// Package replay holds tests only: the stories of podsync's testdata, lived by the stock
// kubelet on a runtime that runs nothing. Where what has to hold in a story does not hold
// there, testdata/differences.txt says why. It needs root and the stock kubelet, which
// takes long to build: NODEKIT_LONG=1 asks for it.
package replay
