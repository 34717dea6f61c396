package runtime

import (
	"fmt"
	"path/filepath"
	"strings"
)

// maxSocketPath is the longest path a unix socket can have: sun_path of
// struct sockaddr_un in linux/un.h holds 108 bytes with the final NUL.
const maxSocketPath = 107

// socketPath returns the cleaned path of the unix socket that endpoint names:
// unix:///path, unix:/path or an absolute path.
func socketPath(endpoint string) (string, error) {
	path, hadScheme := strings.CutPrefix(endpoint, "unix:")
	if hadScheme {
		path = strings.TrimPrefix(path, "//")
	} else if scheme, _, found := strings.Cut(endpoint, "://"); found {
		return "", fmt.Errorf("runtime: endpoint %q: scheme %q is not supported, want unix:///path", endpoint, scheme)
	}
	switch {
	case path == "":
		return "", fmt.Errorf("runtime: endpoint %q names no socket, want unix:///path", endpoint)
	case !strings.HasPrefix(path, "/"):
		return "", fmt.Errorf("runtime: endpoint %q: %q is not an absolute path, want unix:///path", endpoint, path)
	case strings.ContainsRune(path, 0):
		return "", fmt.Errorf("runtime: endpoint %q contains a NUL byte", endpoint)
	}
	path = filepath.Clean(path)
	if len(path) > maxSocketPath {
		return "", fmt.Errorf("runtime: endpoint %q: the path has %d bytes, a unix socket has %d at most", endpoint, len(path), maxSocketPath)
	}
	return path, nil
}
