package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
)

// chain runs the plugins of a network for one attachment.
type chain struct {
	cfg     *Config
	network *Network
	at      Attachment
	args    map[string]json.RawMessage
	exec    invoke.Exec
}

// add runs ADD from the first plugin on. It returns the last one's result in the
// version of the network, and how many plugins may have done something.
func (c *chain) add(ctx context.Context) (result json.RawMessage, ran int, err error) {
	for i := range c.network.Plugins {
		next, err := c.call(ctx, "ADD", i, extras{prev: result, args: c.args})
		if own, failed := errors.AsType[*PluginError](err); !failed || !own.idle {
			ran = i + 1
		}
		if err != nil {
			return nil, ran, err
		}
		result = next
	}
	return result, ran, nil
}

// del runs DEL from the last plugin to the first and stops at an error, because
// what a plugin left standing may point to what the ones before it would free: a
// port mapping at an address that the next pod gets.
func (c *chain) del(ctx context.Context, result json.RawMessage) error {
	if !c.network.atLeast("0.4.0") {
		result = nil // https://github.com/containernetworking/cni/blob/spec-v0.4.0/SPEC.md brought it
	}
	for i := range slices.Backward(c.network.Plugins) {
		if _, err := c.call(ctx, "DEL", i, extras{prev: result, args: c.args}); err != nil {
			return err
		}
	}
	return nil
}

// undo runs DEL for the first plugins of an ADD that did not finish. A broken or
// missing one does not keep the others from it; one that is not installed now may have
// been at the time of ADD.
func (c *chain) undo(ctx context.Context, ran int) error {
	var errs []error
	for i := ran - 1; i >= 0; i-- {
		if _, err := c.call(ctx, "DEL", i, extras{args: c.args}); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// check runs CHECK and stops at an error.
func (c *chain) check(ctx context.Context, result json.RawMessage) error {
	for i := range c.network.Plugins {
		if _, err := c.call(ctx, "CHECK", i, extras{prev: result, args: c.args}); err != nil {
			return err
		}
	}
	return nil
}

// all runs a command that concerns no attachment for every plugin and joins the
// errors.
func (c *chain) all(ctx context.Context, command string, x extras) error {
	var errs []error
	for i := range c.network.Plugins {
		if _, err := c.call(ctx, command, i, x); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// call runs one plugin. The result is nil for other commands than ADD; every error
// is a *PluginError.
func (c *chain) call(ctx context.Context, command string, i int, x extras) (json.RawMessage, error) {
	path, err := c.exec.FindInPath(c.network.Plugins[i].Type, c.cfg.BinDirs)
	if err != nil {
		return nil, c.blame(command, i, &PluginError{Err: err, idle: true})
	}
	config, err := c.network.request(i, x)
	if err != nil {
		return nil, c.blame(command, i, &PluginError{Path: path, Err: err, idle: true})
	}
	ctx, done := c.cfg.limit(ctx, c.network.Plugins[i].Type)
	defer done()
	if command != "ADD" {
		err = invoke.ExecPluginWithoutResult(ctx, path, config, c.environment(command), c.exec)
		return nil, c.blame(command, i, err)
	}
	answer, err := invoke.ExecPluginWithResult(ctx, path, config, c.environment(command), c.exec)
	if err != nil {
		if _, own := errors.AsType[*PluginError](err); !own { // what it printed is no result
			err = &PluginError{Path: path, Err: fmt.Errorf("%w: %w", ErrBadOutput, err)}
		}
		return nil, c.blame(command, i, err)
	}
	result, err := c.convert(answer)
	if err != nil {
		return nil, c.blame(command, i, &PluginError{Path: path, Err: err})
	}
	return result, nil
}

// convert writes a result in the version of the network, and checks that it can be
// read.
func (c *chain) convert(answer types.Result) (json.RawMessage, error) {
	raw, err := json.Marshal(answer)
	if err == nil {
		err = refuseNulls(raw)
	}
	if err != nil {
		return nil, err
	}
	own, err := answer.GetAsVersion(c.network.Version)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadOutput, err)
	}
	if raw, err = json.Marshal(own); err != nil {
		return nil, err
	}
	_, err = parseResult(raw)
	return raw, err
}

// blame completes an error with the names; it returns nil for nil.
func (c *chain) blame(command string, i int, err error) error {
	if err == nil {
		return nil
	}
	own, ok := errors.AsType[*PluginError](err)
	if !ok {
		own = &PluginError{Err: err}
	}
	own.Network, own.Plugin, own.Command = c.network.Name, c.network.Plugins[i].Type, command
	return own
}

// environment is that of this process with the parameters of one call. It
// implements invoke.CNIArgs.
type environment struct {
	command string
	at      Attachment
	path    string
}

// AsEnv implements invoke.CNIArgs.
func (e environment) AsEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "CNI_") })
	args := make([]string, len(e.at.Args))
	for i, arg := range e.at.Args {
		args[i] = arg.Key + "=" + arg.Value
	}
	return append(env,
		"CNI_COMMAND="+e.command, "CNI_CONTAINERID="+e.at.ContainerID, "CNI_NETNS="+e.at.NetNS,
		"CNI_IFNAME="+e.at.IfName, "CNI_ARGS="+strings.Join(args, ";"), "CNI_PATH="+e.path)
}

func (c *chain) environment(command string) environment {
	return environment{command: command, at: c.at, path: c.cfg.path()}
}

// limit gives a plugin its time.
func (c *Config) limit(ctx context.Context, plugin string) (context.Context, context.CancelFunc) {
	d := c.timeout(plugin)
	return context.WithTimeoutCause(ctx, d, &timeoutError{d})
}

// timeoutError is the cause of the end of a plugin that took too long.
type timeoutError struct{ after time.Duration }

func (e *timeoutError) Error() string { return fmt.Sprintf("no answer within %s, killed", e.after) }

// Unwrap makes it a context.DeadlineExceeded.
func (e *timeoutError) Unwrap() error { return context.DeadlineExceeded }
