package registryauth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFileSize bounds what is read of a configuration file: 10 MiB.
const maxFileSize = 10 << 20

// legacyName is the name of files in the older form.
const legacyName = ".dockercfg"

// Files are the places where Docker configuration of the node may be, the most
// important first. Only the first one that exists counts. A file named .dockercfg is in
// the older form. The zero value has no places.
type Files struct {
	Paths []string
}

// KubeletFiles returns the places where the kubelet looks, except for its working
// directory: config.json in its root directory, such as /var/lib/kubelet, .docker/config.json
// in the home directory and in /, and .dockercfg in the same three. home may be empty.
func KubeletFiles(root, home string) Files {
	config := []string{filepath.Join(root, "config.json")}
	legacy := []string{filepath.Join(root, legacyName)}
	if home != "" {
		config = append(config, filepath.Join(home, ".docker", "config.json"))
		legacy = append(legacy, filepath.Join(home, legacyName))
	}
	config = append(config, "/.docker/config.json")
	return Files{Paths: append(append(config, legacy...), "/"+legacyName)}
}

// Keyring reads the files as they are now. Anybody on the node may use what is in them.
// The error is about files that exist and cannot be used as a whole; the next place is
// tried for those that cannot be read at all.
func (f Files) Keyring() (*Keyring, error) {
	keyring := &Keyring{}
	var errs []error
	for _, path := range f.Paths {
		auths, err := parseFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", path, err))
		}
		if auths != nil {
			keyring.Add(auths, Source{})
			break
		}
	}
	return keyring, errors.Join(errs...)
}

func parseFile(path string) (Auths, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileSize {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFileSize)
	}
	if filepath.Base(path) == legacyName {
		return ParseLegacyConfig(data)
	}
	return ParseConfig(data)
}
