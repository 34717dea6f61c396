//go:build !unix

package registryauth

import "os/exec"

// killGroup has nothing to do: without process groups only the plugin itself is killed.
func killGroup(*exec.Cmd) {}
