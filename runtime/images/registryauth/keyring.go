package registryauth

import (
	"maps"
	"slices"
	"strings"
)

// dockerHub is the key under which docker login stores credentials for docker.io.
const dockerHub = "index.docker.io"

// Keyring holds credentials and finds those for a repository. The zero value and nil
// are empty.
type Keyring struct {
	// entries are in the order in which they are tried.
	entries []keyringEntry
}

type keyringEntry struct {
	pattern    pattern
	credential Credential
}

// Add puts credentials from one source on the keyring. Registries that are no valid
// patterns are left out; ParseConfig has reported them.
func (k *Keyring) Add(auths Auths, source Source) {
	for _, registry := range slices.Sorted(maps.Keys(auths)) {
		p, err := parseRegistry(registry)
		if err != nil {
			continue
		}
		credential := auths[registry]
		credential.Source = source
		k.entries = append(k.entries, keyringEntry{p, credential})
	}
	k.sort()
}

// Join puts what is on another keyring on this one, as from sources of their own.
func (k *Keyring) Join(other *Keyring) {
	if other != nil {
		k.entries = append(k.entries, other.entries...)
	}
	k.sort()
}

func (k *Keyring) sort() {
	// In reverse order a longer key comes before its beginning, and a name before a
	// glob. What was added first stays first among equal keys.
	slices.SortStableFunc(k.entries, func(a, b keyringEntry) int {
		return strings.Compare(b.pattern.key, a.pattern.key)
	})
}

// Lookup returns the credentials for a repository, such as "docker.io/library/web", in
// the order in which to try them: those with the most specific path first.
func (k *Keyring) Lookup(repository string) []Credential {
	if k == nil {
		return nil
	}
	target, err := parseRepository(repository)
	if err != nil {
		return nil
	}
	var found []Credential
	for _, e := range k.entries {
		if e.pattern.matches(target) {
			found = append(found, e.credential)
		}
	}
	if len(found) == 0 && isDockerHub(repository) {
		for _, e := range k.entries {
			if e.pattern.key == dockerHub {
				found = append(found, e.credential)
			}
		}
	}
	return found
}

func isDockerHub(repository string) bool {
	registry, _, _ := strings.Cut(repository, "/")
	return registry == "docker.io" || registry == dockerHub
}

// Unique returns credentials in the same order without those that are the same as an
// earlier one, whatever their source: the registry would refuse them again.
func Unique(credentials []Credential) []Credential {
	seen := make(map[string]bool, len(credentials))
	return slices.DeleteFunc(slices.Clone(credentials), func(c Credential) bool {
		hash := c.Hash()
		again := seen[hash]
		seen[hash] = true
		return again
	})
}
