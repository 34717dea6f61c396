package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var libraryPath = regexp.MustCompile(`(?m)(?:=> |^\s*)(/\S+) \(0x`)

// libraries returns the shared libraries that a program needs, as ldd(1) finds
// them; none for a static program or a script.
func libraries(ctx context.Context, program string) []string {
	// ldd fails for what is not a dynamic executable.
	out, err := exec.CommandContext(ctx, "ldd", program).Output()
	if err != nil {
		return nil
	}
	return parseLibraries(string(out))
}

func parseLibraries(ldd string) []string {
	var paths []string
	for _, m := range libraryPath.FindAllStringSubmatch(ldd, -1) {
		paths = append(paths, m[1])
	}
	return paths
}

// hostFile resolves what -file asks for: the path of a file or folder, the name of
// a program in PATH, or either after "GUESTPATH=".
func hostFile(spec string) (guest, host string, err error) {
	guest, host, renamed := strings.Cut(spec, "=")
	if !renamed {
		guest, host = "", spec
	}
	if strings.Contains(host, "/") {
		host, err = filepath.Abs(host)
		if err == nil {
			_, err = os.Stat(host)
		}
	} else {
		host, err = exec.LookPath(host)
	}
	if err != nil {
		return "", "", fmt.Errorf("file %q for the guest: %w", spec, err)
	}
	if guest == "" {
		guest = host
	}
	return guest, host, nil
}
