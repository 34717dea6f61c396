package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// options are the flags.
type options struct {
	config, configDir string
	hostname, root    string
	takeOver, version bool
	level             logLevel
	logFormat         string
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&o.config, "config", "", "`file` with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1); required")
	f.StringVar(&o.configDir, "config-dir", "", "`directory` with drop-ins for the configuration, *.conf, in the order of their paths")
	f.StringVar(&o.hostname, "hostname-override", "", "`name` of the node; default: the host's name in lower case")
	f.StringVar(&o.root, "root-dir", podspec.DefaultRoot, "`directory` of the kubelet's own data")
	f.BoolVar(&o.takeOver, "take-over", false, "stop and remove all pods on the runtime that no manifest names, whoever made them")
	f.VarP(&o.level, "log-level", "v", "debug, info, warn or error; numbers are taken as in the kubelet, from 4 on debug")
	f.StringVar(&o.logFormat, "log-format", "text", "`format` of the log: text or json")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.Usage = func() {
		fmt.Fprintf(usage, "kubelet runs the static pods of a manifest directory on a container runtime.\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case f.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	case o.version:
	case o.config == "" && o.configDir == "":
		return nil, fmt.Errorf("--config is missing, want a file with a KubeletConfiguration; see --help")
	}
	return o, nil
}

// logger returns the logger that the flags ask for.
func (o *options) logger(w io.Writer) (*slog.Logger, error) {
	opts := &slog.HandlerOptions{Level: o.level.Level}
	switch o.logFormat {
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("--log-format is %q, want text or json", o.logFormat)
}

// nodeName returns the name of the node.
func (o *options) nodeName() (string, error) {
	if o.hostname != "" {
		return o.hostname, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host's name, which --hostname-override can replace: %w", err)
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}

// debugFrom is the verbosity from which upstream logs are for debugging
// (https://github.com/kubernetes/community/blob/master/contributors/devel/sig-instrumentation/logging.md).
const debugFrom = 4

// logLevel is a slog.Level that also takes the kubelet's numbers.
type logLevel struct{ slog.Level }

// Set reads a level.
func (l *logLevel) Set(s string) error {
	if n, err := strconv.Atoi(s); err == nil {
		l.Level = slog.LevelInfo
		if n >= debugFrom {
			l.Level = slog.LevelDebug
		}
		return nil
	}
	return l.UnmarshalText([]byte(s))
}

// String returns the level in lower case.
func (l *logLevel) String() string { return strings.ToLower(l.Level.String()) }

// Type names the value in the help.
func (l *logLevel) Type() string { return "level" }

// baseline is the release of Kubernetes whose behaviour the kubelet has.
const baseline = "v1.37.2"

// version is the baseline with nodekit's own version as build metadata.
func version() string {
	own := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		own = strings.ReplaceAll(strings.TrimPrefix(info.Main.Version, "v"), "+", ".")
	}
	return baseline + "+nodekit." + own
}
