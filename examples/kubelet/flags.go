package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// options are the flags.
type options struct {
	config, configDir string
	hostname, root    string
	takeOver, version bool
	level             program.LogLevel
	logFormat         string
	dryRun, endpoint  string
	plugins           node.CredentialPlugins
	registration
	storing
	dead
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
	f.StringVar(&o.endpoint, "container-runtime-endpoint", "", "`address` of the runtime; wins over that of the configuration")
	f.StringVar(&o.dryRun, "dry-run", "", "print what would be done for the pod of a `manifest`, and do nothing")
	f.StringVar(&o.plugins.Config, "image-credential-provider-config", "", "`file` or directory with the configuration of credential plugins")
	f.StringVar(&o.plugins.Dir, "image-credential-provider-bin-dir", "", "`directory` with the credential plugins")
	o.registration.add(f)
	o.storing.add(f)
	o.dead.add(f)
	f.BoolVar(&o.takeOver, "take-over", false, "stop and remove all pods on the runtime that no manifest names, whoever made them")
	f.VarP(&o.level, "log-level", "v", "debug, info, warn or error; numbers are taken as in the kubelet, from 4 on debug")
	f.StringVar(&o.logFormat, "log-format", "text", "`format` of the log: text or json")
	f.Var(&o.level, "v", "like --log-level")
	f.String("runtime-cgroups", "", "of a kubelet: without effect")
	f.String("feature-gates", "", "of a kubelet: without effect, as in the configuration")
	f.String("image-service-endpoint", "", "of a kubelet: without effect, images are the runtime's")
	for _, name := range withoutEffect() {
		_ = f.MarkHidden(name) // it is defined above
	}
	_ = f.MarkHidden("v")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	f.Usage = func() {
		fmt.Fprintf(usage, "kubelet runs the static pods of a manifest directory on a container runtime.\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	for _, name := range withoutEffect() {
		if f.Changed(name) {
			fmt.Fprintf(usage, "kubelet: --%s has no effect\n", name)
		}
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

// withoutEffect are flags of a kubelet that are taken so that what starts kubelets starts
// this one, too.
func withoutEffect() []string {
	return []string{"runtime-cgroups", "feature-gates", "image-service-endpoint"}
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
