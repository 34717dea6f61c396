// Command sh is /bin/sh where an image stands in for BusyBox's. It becomes Debian's
// BusyBox, unless the environment has variables whose names no shell can write, such
// as data-1: this BusyBox would drop them, which upstream's image does not; then it
// becomes bash.
package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
)

func main() {
	shell := "/usr/bin/busybox"
	if hasOddName(os.Environ()) {
		shell = "/usr/bin/bash"
	}
	// BusyBox and bash both look at the name that they are called by.
	err := syscall.Exec(shell, os.Args, os.Environ())
	fmt.Fprintf(os.Stderr, "sh: become %s: %v\n", shell, err)
	os.Exit(127)
}

// hasOddName reports whether the name of a variable is none for a shell.
func hasOddName(environment []string) bool {
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if name == "" || (name[0] >= '0' && name[0] <= '9') || strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_") != "" {
			return true
		}
	}
	return false
}
