package main

import (
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// options are the flags.
type options struct {
	config, sourceDir, podsURL, hostname string
	cleanup, version                     bool
	level                                logLevel
	levelSet                             bool
	logFormat                            string
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	f := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	f.StringVar(&o.config, "config", "", "`file` with a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1)")
	f.StringVar(&o.sourceDir, "source-dir", "", "`directory` of Service and EndpointSlice manifests")
	f.StringVar(&o.podsURL, "pods-url", "", "`address` of the kubelet's pods, for Services with selectors: unix:///path/of/socket")
	f.StringVar(&o.hostname, "hostname-override", "", "`name` of the node; default: hostnameOverride of the file, else the host's name in lower case")
	f.BoolVar(&o.cleanup, "cleanup", false, "remove what kube-proxy made in the kernel, and exit")
	f.VarP(&o.level, "log-level", "v", "debug, info, warn or error; numbers are taken as in kube-proxy, from 4 on debug")
	f.StringVar(&o.logFormat, "log-format", "", "`format` of the log: text or json; default: logging.format of the file, else text")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.Usage = func() {
		fmt.Fprintf(usage, "kube-proxy serves Services on this node through nftables.\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q; see --help", f.Arg(0))
	}
	o.levelSet = f.Changed("log-level")
	return o, nil
}

// debugFrom is the verbosity from which upstream logs are for debugging
// (https://github.com/kubernetes/community/blob/master/contributors/devel/sig-instrumentation/logging.md).
const debugFrom = 4

// logLevel is a slog.Level that also takes kube-proxy's numbers.
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

// baseline is the release of Kubernetes whose behaviour kube-proxy has.
const baseline = "v1.37.2"

// version is the baseline with nodekit's own version as build metadata.
func version() string {
	own := "devel"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		own = strings.ReplaceAll(strings.TrimPrefix(info.Main.Version, "v"), "+", ".")
	}
	return baseline + "+nodekit." + own
}
