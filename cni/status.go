package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
)

// Status returns nil if the network can take an ADD, else why not, for each plugin:
// a program is missing, or the plugin says so. Only networks of CNI 1.1 and newer
// ask their plugins; test the error for ErrPluginMissing, ErrUnavailable, ErrLimited.
// A nil network is an ErrNoNetwork; a Watcher has the reason.
func (v *Invoker) Status(ctx context.Context, n *Network) error {
	if n == nil {
		return fmt.Errorf("cni status: %w", ErrNoNetwork)
	}
	err := v.installed(n)
	if err == nil && n.atLeast("1.1.0") {
		err = v.chain(n, Attachment{}, nil, execution{}).all(ctx, "STATUS", extras{})
	}
	if err != nil {
		return fmt.Errorf("cni status: %w", err)
	}
	return nil
}

// installed names the programs that are missing: plugins, and those they delegate to.
func (v *Invoker) installed(n *Network) error {
	var errs []error
	c := v.chain(n, Attachment{}, nil, execution{})
	for _, p := range v.Programs(n) {
		if p.Err != nil {
			errs = append(errs, c.blame("STATUS", p.plugin, &PluginError{Err: p.Err, idle: true}))
		}
	}
	return errors.Join(errs...)
}

// Program is an executable that a network needs.
type Program struct {
	Name string
	// Role is "plugin", "ipam" or "delegate".
	Role string
	// Path is empty if it was not found; Err then names where it was looked for.
	Path string
	Err  error

	plugin int // index
}

// Programs returns what the network's plugins run, in the order of ADD.
func (v *Invoker) Programs(n *Network) []Program {
	var all []Program
	exec := v.exec(nil, nil)
	for i, p := range n.Plugins {
		for _, one := range []Program{{Name: p.Type, Role: "plugin"}, {Name: p.Delegate, Role: "delegate"}, {Name: p.IPAM, Role: "ipam"}} {
			if one.Name == "" {
				continue
			}
			one.plugin = i
			one.Path, one.Err = exec.FindInPath(one.Name, v.cfg.BinDirs)
			all = append(all, one)
		}
	}
	return all
}

// Versions asks the plugins with VERSION which CNI versions they speak. The result
// has one list for each plugin, nil where that failed.
func (v *Invoker) Versions(ctx context.Context, n *Network) ([][]string, error) {
	all := make([][]string, len(n.Plugins))
	var errs []error
	c := v.chain(n, Attachment{}, nil, execution{})
	for i := range n.Plugins {
		speaks, err := c.version(ctx, i)
		all[i] = speaks
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

func (c *chain) version(ctx context.Context, i int) ([]string, error) {
	plugin := c.network.Plugins[i].Type
	path, err := c.exec.FindInPath(plugin, c.cfg.BinDirs)
	if err != nil {
		return nil, c.blame("VERSION", i, err)
	}
	ctx, done := c.cfg.limit(ctx, plugin)
	defer done()
	info, err := invoke.GetVersionInfo(ctx, path, c.exec)
	if err != nil {
		return nil, c.blame("VERSION", i, err)
	}
	return info.SupportedVersions(), nil
}

// Validate checks that every program of the network is installed and every plugin
// speaks its CNI version. It runs VERSION for each.
func (v *Invoker) Validate(ctx context.Context, n *Network) error {
	errs := []error{v.installed(n)}
	if errs[0] == nil {
		speaks, err := v.Versions(ctx, n)
		errs = append(errs, err)
		c := v.chain(n, Attachment{}, nil, execution{})
		for i, versions := range speaks {
			if versions != nil && !slices.Contains(versions, n.Version) {
				errs = append(errs, c.blame("VERSION", i, &PluginError{
					Code: types.ErrIncompatibleCNIVersion,
					Msg:  fmt.Sprintf("the configuration has %s, the plugin speaks %s", n.Version, strings.Join(versions, ", ")),
				}))
			}
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cni validate: %w", err)
	}
	return nil
}
