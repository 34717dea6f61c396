package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hostLocalDir is where host-local keeps its addresses unless its configuration has
// a dataDir (https://www.cni.dev/plugins/current/ipam/host-local/#files).
const hostLocalDir = "/var/lib/cni/networks"

// Leak is an address that is reserved for an attachment which is not valid.
type Leak struct {
	Address netip.Addr
	// Owner is the attachment; host-local before 0.8 leaves its IfName empty.
	Owner Key
}

// Leaks lists the addresses that the plugin host-local has reserved for attachments
// of the network other than the valid ones, sorted. It changes nothing: what is
// valid for another runtime on the node looks like a leak too. GC frees what is
// recorded here. Networks without host-local have none.
func (n *Network) Leaks(valid []Key) ([]Leak, error) {
	dirs := map[string]bool{}
	for _, p := range n.list.Plugins {
		for _, dir := range hostLocalDirs(p.Bytes) {
			dirs[filepath.Join(dir, n.Name)] = true
		}
	}
	var leaks []Leak
	var errs []error
	for dir := range dirs {
		found, err := reserved(dir)
		errs = append(errs, err)
		leaks = append(leaks, slices.DeleteFunc(found, func(l Leak) bool {
			return slices.ContainsFunc(valid, func(k Key) bool {
				return k == l.Owner || l.Owner.IfName == "" && k.ContainerID == l.Owner.ContainerID
			})
		})...)
	}
	slices.SortFunc(leaks, func(a, b Leak) int { return a.Address.Compare(b.Address) })
	if err := errors.Join(errs...); err != nil {
		return leaks, fmt.Errorf("cni leaks of %s: %w", n.Name, err)
	}
	return leaks, nil
}

// hostLocalDirs returns where the host-local of a plugin, or of the one it delegates
// to, keeps its addresses.
func hostLocalDirs(conf []byte) []string {
	type ipam struct{ Type, DataDir string }
	var c struct {
		IPAM     ipam
		Delegate struct{ IPAM ipam }
	}
	if json.Unmarshal(conf, &c) != nil {
		return nil // a plugin that has something else under these names
	}
	var dirs []string
	for _, one := range []ipam{c.IPAM, c.Delegate.IPAM} {
		switch {
		case one.Type != "host-local":
		case one.DataDir != "":
			dirs = append(dirs, one.DataDir)
		default:
			dirs = append(dirs, hostLocalDir)
		}
	}
	return dirs
}

// reserved reads a directory of host-local: a file for each address, which holds the
// container and the interface in a line each.
func reserved(dir string) ([]Leak, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var all []Leak
	for _, e := range entries {
		addr, bad := netip.ParseAddr(e.Name())
		if bad != nil {
			continue // its lock, or the last address
		}
		data, failed := readConfig(filepath.Join(dir, e.Name()))
		if errors.Is(failed, fs.ErrNotExist) {
			continue // freed by now
		}
		err = errors.Join(err, failed)
		id, ifname, _ := strings.Cut(string(data), "\n")
		all = append(all, Leak{addr, Key{strings.TrimSpace(id), strings.TrimSpace(ifname)}})
	}
	return all, err
}
