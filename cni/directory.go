package cni

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"
)

// maxConfig is far above any configuration; a larger file is not read.
const maxConfig = 1 << 20

// File is a configuration file and what became of it.
type File struct {
	// Path is that of the file.
	Path string
	// Network is what the file describes; if Err is set, what it described before it
	// broke, nil if it never described anything.
	Network *Network
	// Err is what is wrong with the file now.
	Err error
}

// Selection is what a directory says about the network of the pods.
type Selection struct {
	// Network is that of the first file in the order of names that describes one, nil
	// if there is none.
	Network *Network
	// Reason says why Network is nil; else it is zero.
	Reason Reason
	// Err is an ErrNoNetwork with everything known about the reason, nil if there is a
	// network.
	Err error
	// Files are all configuration files, in the order of their names.
	Files []File
}

// Reason is why there is no network.
type Reason uint8

// The reasons for no network.
const (
	// Unread means that nobody has looked yet.
	Unread Reason = iota + 1
	// NoDirectory means that the directory does not exist.
	NoDirectory
	// NoFiles means that no file in it has the name of a configuration.
	NoFiles
	// Broken means that none of the files describes a network.
	Broken
	// Unreadable means that the directory exists and cannot be read.
	Unreadable
)

// String returns the reason in the form of a condition's reason.
func (r Reason) String() string {
	switch r {
	case 0:
		return "Ready"
	case Unread:
		return "ConfigurationUnread"
	case NoDirectory:
		return "NoConfigurationDirectory"
	case NoFiles:
		return "NoConfiguration"
	case Broken:
		return "ConfigurationBroken"
	case Unreadable:
		return "ConfigurationUnreadable"
	}
	return fmt.Sprintf("Reason(%d)", uint8(r))
}

// Load looks once at a directory and returns the network of its first usable file
// in the order of names: *.conflist, *.conf and *.json, hidden files left out. The
// error is an ErrNoNetwork that names each broken file.
func Load(dir string) (*Network, error) {
	s := scan(dir, nil)
	return s.Network, s.Err
}

// scan takes one look. Files that are broken now and were not in the last look keep
// what they described.
func scan(dir string, last []File) Selection {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Selection{Reason: NoDirectory, Err: fmt.Errorf("%w: directory %s does not exist", ErrNoNetwork, dir)}
	case err != nil:
		return Selection{Reason: Unreadable, Err: fmt.Errorf("%w: directory %w", ErrNoNetwork, err)}
	}
	var files []File
	for _, e := range entries { // sorted by name
		if !isConfigName(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f := File{Path: path}
		f.Network, f.Err = loadFile(path)
		if errors.Is(f.Err, fs.ErrNotExist) {
			continue // gone since it was listed, or a link to nothing
		}
		files = append(files, f.after(last))
	}
	return choose(dir, files)
}

// after keeps what a file described before it broke, and the same Network while it
// describes the same.
func (f File) after(last []File) File {
	i := slices.IndexFunc(last, func(l File) bool { return l.Path == f.Path })
	if i < 0 || last[i].Network == nil {
		return f
	}
	if f.Err != nil || bytes.Equal(f.Network.list.Bytes, last[i].Network.list.Bytes) {
		f.Network = last[i].Network
	}
	return f
}

// choose picks the network of the first file that has one.
func choose(dir string, files []File) Selection {
	s := Selection{Files: files}
	for _, f := range files {
		if f.Network != nil {
			s.Network = f.Network
			return s
		}
	}
	if len(files) == 0 {
		s.Reason, s.Err = NoFiles, fmt.Errorf("%w: %s has no *.conflist, *.conf or *.json", ErrNoNetwork, dir)
		return s
	}
	broken := []error{}
	for _, f := range files {
		broken = append(broken, fmt.Errorf("%s: %w", f.Path, f.Err))
	}
	s.Reason, s.Err = Broken, fmt.Errorf("%w: %w", ErrNoNetwork, errors.Join(broken...))
	return s
}

func isConfigName(name string) bool {
	return name[0] != '.' && slices.Contains([]string{".conflist", ".conf", ".json"}, filepath.Ext(name))
}

// loadFile reads a configuration with the plugins that lie in the folder beside it
// that is named after the network.
func loadFile(path string) (*Network, error) {
	data, err := readConfig(path)
	if err != nil {
		return nil, err
	}
	n, err := parse(data, func(name string) ([]*libcni.PluginConfig, error) {
		return loadPlugins(filepath.Join(filepath.Dir(path), name))
	})
	if err != nil {
		return nil, err
	}
	n.File = path
	return n, nil
}

// loadPlugins reads the *.conf of a network's own folder, which need not exist.
func loadPlugins(dir string) ([]*libcni.PluginConfig, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var plugins []*libcni.PluginConfig
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".conf" {
			continue
		}
		path := filepath.Join(dir, e.Name())
		data, err := readConfig(path)
		if err != nil {
			return nil, err
		}
		plugin, err := libcni.NetworkPluginConfFromBytes(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		plugins = append(plugins, plugin)
	}
	return plugins, nil
}

// readConfig reads a regular file. A pipe of that name does not hold it up.
func readConfig(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("is no regular file (%s)", info.Mode())
	}
	data, err := io.ReadAll(io.LimitReader(file, maxConfig+1))
	if err == nil && len(data) > maxConfig {
		return nil, fmt.Errorf("is larger than %d bytes", maxConfig)
	}
	return data, err
}
