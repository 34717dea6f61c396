package cni

import (
	"errors"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// Errors of an Invoker. Test for them with errors.Is.
var (
	// ErrNoNetwork means that there is no usable configuration.
	ErrNoNetwork = errors.New("no CNI network")
	// ErrAttached means that ADD was asked for an attachment that is there already.
	ErrAttached = errors.New("already attached")
	// ErrNotAttached means that no finished ADD is recorded for the attachment.
	ErrNotAttached = errors.New("not attached")
	// ErrNotSupported means that the version of the configuration lacks the operation.
	ErrNotSupported = errors.New("not supported by the configuration's CNI version")
	// ErrPluginMissing means that the program of a plugin was not found.
	ErrPluginMissing = errors.New("not found")
	// ErrBadOutput means that a plugin answered with something that is no CNI result.
	ErrBadOutput = errors.New("unusable output")
	// ErrBusy means that another process holds the attachment or the state directory.
	ErrBusy = errors.New("locked by another process")

	// ErrTryAgain, ErrUnavailable and ErrLimited are the codes 11, 50 and 51 of a
	// plugin: try later; no ADD is possible; the same, and running pods may be cut off
	// too.
	ErrTryAgain    = errors.New("try again later")
	ErrUnavailable = errors.New("plugin not available")
	ErrLimited     = errors.New("plugin not available, connectivity may be limited")
)

// PluginError says which plugin failed at what, and how.
type PluginError struct {
	// Network is the name of the configuration, Plugin the type of the plugin.
	Network, Plugin string
	// Path is the program, empty if it was not found.
	Path string
	// Command is ADD, DEL, CHECK, GC, STATUS or VERSION.
	Command string
	// Code, Msg and Details are those of the plugin's error object; see
	// https://github.com/containernetworking/cni/blob/main/SPEC.md#error. All are
	// zero if it printed none.
	Code         uint
	Msg, Details string
	// Stderr is the end of what it printed there.
	Stderr string
	// Err is the cause on this side: how the process ended, context.DeadlineExceeded
	// after a timeout, ErrPluginMissing, ErrBadOutput.
	Err error

	// idle means that the program did not run.
	idle bool
}

// Error names the network, the plugin, the command and everything known about why.
func (e *PluginError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "network %s: plugin %s: %s", e.Network, e.Plugin, e.Command)
	if e.Msg != "" || e.Code != 0 {
		fmt.Fprintf(&b, ": %s", strings.TrimSpace(e.Msg))
		if e.Details != "" {
			fmt.Fprintf(&b, "; %s", strings.TrimSpace(e.Details))
		}
		fmt.Fprintf(&b, " (code %d%s)", e.Code, meaning(e.Code))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	if e.Stderr != "" && e.Msg == "" {
		fmt.Fprintf(&b, ": stderr: %s", strings.TrimSpace(e.Stderr))
	}
	return b.String()
}

// Unwrap returns the cause on this side.
func (e *PluginError) Unwrap() error { return e.Err }

// Is answers for the errors that stand for a code.
func (e *PluginError) Is(target error) bool {
	switch e.Code {
	case types.ErrTryAgainLater:
		return target == ErrTryAgain
	case types.ErrPluginNotAvailable:
		return target == ErrUnavailable
	case types.ErrLimitedConnectivity:
		return target == ErrLimited || target == ErrUnavailable
	}
	return false
}

// meaning has the well-known codes of the specification.
func meaning(code uint) string {
	switch code {
	case types.ErrIncompatibleCNIVersion:
		return ", incompatible CNI version"
	case types.ErrUnsupportedField:
		return ", unsupported field in the configuration"
	case types.ErrUnknownContainer:
		return ", container unknown"
	case types.ErrInvalidEnvironmentVariables:
		return ", invalid environment variables"
	case types.ErrIOFailure:
		return ", I/O failure"
	case types.ErrDecodingFailure:
		return ", failed to decode content"
	case types.ErrInvalidNetworkConfig:
		return ", invalid network configuration"
	case types.ErrInvalidNetNS:
		return ", invalid network namespace"
	case types.ErrTryAgainLater:
		return ", try again later"
	case types.ErrPluginNotAvailable:
		return ", plugin not available"
	case types.ErrLimitedConnectivity:
		return ", plugin not available and limited connectivity"
	}
	return ""
}

// missingError is an ErrPluginMissing that names every place that was looked at.
type missingError struct {
	name string
	dirs []string
	// found is a file of that name that can't be run, with the reason.
	found string
}

func (e *missingError) Error() string {
	switch {
	case len(e.dirs) == 0:
		return fmt.Sprintf("program %q not found: no directories to look in, Config.BinDirs is empty", e.name)
	case e.found != "":
		return fmt.Sprintf("program %q not found in %s: %s", e.name, strings.Join(e.dirs, ", "), e.found)
	}
	return fmt.Sprintf("program %q not found in %s; install it there or add its directory", e.name, strings.Join(e.dirs, ", "))
}

// Is answers for ErrPluginMissing.
func (e *missingError) Is(target error) bool { return target == ErrPluginMissing }
