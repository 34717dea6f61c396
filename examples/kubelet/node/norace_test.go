//go:build !race

package node

func oneAtATime() {}
