package registryauth

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"
)

// pattern says which repositories a credential or a plugin is for
// (https://kubernetes.io/docs/tasks/administer-cluster/kubelet-credential-provider/#configure-image-matching).
type pattern struct {
	// key is host and path as written; patterns are tried in the reverse order of keys.
	key string
	// host is the parts of the host name, each of which may have globs.
	host []string
	port string
	// path is a prefix of the path of the repository, with the slash.
	path string
}

var errPattern = errors.New("it is not a host name with an optional port and path")

// parsePattern reads "registry.example:5000/team" and the like, with or without http://
// or https://.
func parsePattern(text string) (pattern, error) {
	u, err := parseURL(text)
	if err != nil {
		return pattern{}, err
	}
	return newPattern(u)
}

// parseRegistry is parsePattern for the registries of a Docker configuration: docker
// login writes the URL of the registry's API, whose versions come first in the path.
func parseRegistry(text string) (pattern, error) {
	u, err := parseURL(text)
	if err != nil {
		return pattern{}, err
	}
	if strings.HasPrefix(u.Path, "/v1/") || strings.HasPrefix(u.Path, "/v2/") {
		u.Path = u.Path[len("/v1"):]
	}
	return newPattern(u)
}

func parseURL(text string) (*url.URL, error) {
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return nil, errPattern
	}
	return u, nil
}

func newPattern(u *url.URL) (pattern, error) {
	p := splitURL(u)
	for _, part := range p.host {
		if _, err := path.Match(part, ""); err != nil {
			return pattern{}, fmt.Errorf("%w: %q is not a glob", errPattern, part)
		}
	}
	return p, nil
}

func splitURL(u *url.URL) pattern {
	p := pattern{path: u.Path}
	if p.path == "/" {
		p.path = ""
	}
	p.key = u.Host + p.path
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		host, port = u.Host, ""
	}
	p.host, p.port = strings.Split(host, "."), port
	return p
}

// matches reports whether the pattern covers a repository such as
// "registry.example/team/web", itself read as a pattern.
func (p pattern) matches(repository pattern) bool {
	if p.port != repository.port || len(p.host) != len(repository.host) || !strings.HasPrefix(repository.path, p.path) {
		return false
	}
	for i, glob := range p.host {
		if ok, err := path.Match(glob, repository.host[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// parseRepository reads a repository for matches.
func parseRepository(repository string) (pattern, error) {
	u, err := url.Parse("https://" + repository)
	if err != nil || u.Host == "" {
		return pattern{}, fmt.Errorf("repository %q: %w", repository, errPattern)
	}
	return splitURL(u), nil
}
