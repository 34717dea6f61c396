package main

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/internal/program"
)

// options are the flags.
type options struct {
	config, sourceDir, podsURL, hostname string
	cleanup, version                     bool
	level                                program.LogLevel
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
