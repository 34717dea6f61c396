package registryauth

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Auths are the credentials of a Docker configuration by the registries that they are
// for, as the file has them: "registry.example", "https://index.docker.io/v1/",
// "*.example/team". Their Source is empty.
type Auths map[string]Credential

// The errors of Docker configurations never hold any of their text, which would show
// in events.
var (
	errNotJSON = errors.New("it is not JSON of the expected form")
	errAuth    = errors.New(`"auth" is not the base64 form of "user:password"`)
)

// ParseConfig reads a configuration in the form of ~/.docker/config.json and of secrets
// of type kubernetes.io/dockerconfigjson. An entry that cannot be used is an error, and
// so is a credential helper, but the other entries are returned with it.
func ParseConfig(data []byte) (Auths, error) {
	var file struct {
		Auths       map[string]json.RawMessage `json:"auths"`
		CredsStore  string                     `json:"credsStore"`
		CredHelpers map[string]string          `json:"credHelpers"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("read Docker configuration: %w", errNotJSON)
	}
	auths, err := parseEntries(file.Auths)
	if file.CredsStore != "" {
		err = errors.Join(err, errors.New(`credsStore is not supported; use a credential-provider plugin or write the credentials to "auths"`))
	}
	for _, registry := range slices.Sorted(maps.Keys(file.CredHelpers)) {
		err = errors.Join(err, fmt.Errorf("credHelpers[%q] is not supported; use a credential-provider plugin", registry))
	}
	return auths, wrapConfig(err)
}

// ParseLegacyConfig is ParseConfig for the older form, in which the whole file is what
// is in "auths" now: ~/.dockercfg and secrets of type kubernetes.io/dockercfg.
func ParseLegacyConfig(data []byte) (Auths, error) {
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(data, &entries); err != nil {
		return nil, fmt.Errorf("read Docker configuration: %w", errNotJSON)
	}
	auths, err := parseEntries(entries)
	return auths, wrapConfig(err)
}

func wrapConfig(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read Docker configuration: %w", err)
}

func parseEntries(entries map[string]json.RawMessage) (Auths, error) {
	auths := make(Auths, len(entries))
	var errs []error
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		credential, err := parseEntry(entries[registry])
		if err == nil {
			_, err = parseRegistry(registry)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("entry for %q: %w", registry, err))
			continue
		}
		// Where a credential store has them, docker login leaves empty entries.
		if credential != (Credential{}) {
			auths[registry] = credential
		}
	}
	return auths, errors.Join(errs...)
}

func parseEntry(data []byte) (Credential, error) {
	var entry struct {
		Username      string `json:"username"`
		Password      string `json:"password"`
		Email         string `json:"email"`
		Auth          string `json:"auth"`
		IdentityToken string `json:"identitytoken"`
	}
	if err := json.Unmarshal(data, &entry); err != nil {
		return Credential{}, errNotJSON
	}
	c := Credential{Username: entry.Username, Password: entry.Password, Email: entry.Email, IdentityToken: entry.IdentityToken}
	if entry.Auth == "" {
		return c, nil
	}
	user, password, err := decodeAuth(entry.Auth)
	if err != nil {
		return Credential{}, err
	}
	c.Username, c.Password = user, password
	return c, nil
}

// decodeAuth reads what docker login writes: base64 with or without padding.
func decodeAuth(text string) (user, password string, err error) {
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	decoded, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return "", "", errAuth
	}
	user, password, found := strings.Cut(string(decoded), ":")
	if !found {
		return "", "", errAuth
	}
	return user, password, nil
}
