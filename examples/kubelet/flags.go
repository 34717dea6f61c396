package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/nodekit-go/nodekit/examples/internal/cli"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// options are the flags.
type options struct {
	config, configDir string
	hostname, root    string
	takeOver          bool
	dryRun            string
	plugins           node.CredentialPlugins
	idle              []idle
	// flags are all of them, as they were given.
	flags flagValues
	asked
	logging
	registration
	storing
	dead
	hosts
	twins
}

// asked is what the program is asked for in the place of running pods.
type asked struct{ version, printDefaults, validate bool }

const usage = `kubelet runs the pods of a manifest directory, and those that a cluster binds to its node, on a
container runtime.

Usage:
  kubelet [flags]
  kubelet run --once POD [flags]         run one pod to its end
  kubelet doctor [flags]                 say what is wrong with this node
  kubelet completion bash|zsh|fish       print what completes this command line

Settings come from --config, then from --config-dir, then from flags; the last one wins.

Exit codes: 0 the end was asked for, or what was asked for is fine; 1 it is not, or the kubelet failed; 2 the
command line is wrong; run --once has that of the pod.
`

// command returns the command with all flags, which set o.
func (o *options) command() *cli.Command {
	c := &cli.Command{Name: "kubelet", Usage: usage, Commands: []*cli.Command{
		(&onceOptions{}).command(), (&doctorOptions{}).command(), completionCommand(),
	}}
	o.add(c)
	return c
}

// add defines all flags.
func (o *options) add(c *cli.Command) {
	f := c.Group("Configuration")
	f.StringVar(&o.config, "config", "", "`file` with a KubeletConfiguration (kubelet.config.k8s.io/v1beta1); default: that of --print-defaults")
	f.StringVar(&o.configDir, "config-dir", "", "`directory` with drop-ins for the configuration, *.conf, in the order of their paths")
	f.StringVar(&o.root, "root-dir", podspec.DefaultRoot, "`directory` of the kubelet's own data")
	o.registration.add(c.Group("Cluster"))
	f = c.Group("The Node")
	f.StringVar(&o.hostname, "hostname-override", "", "`name` of the node; default: the host's name in lower case")
	o.addNode(f)
	f = c.Group("Pods")
	o.storing.add(f)
	o.dead.add(f)
	o.hosts.add(f)
	f.BoolVar(&o.takeOver, "take-over", false, "stop and remove all pods on the runtime that no manifest names, whoever made them")
	f = c.Group("Runtime, images and logs of containers")
	f.StringVar(&o.plugins.Config, "image-credential-provider-config", "", "`file` or directory with the configuration of credential plugins")
	f.StringVar(&o.plugins.Dir, "image-credential-provider-bin-dir", "", "`directory` with the credential plugins")
	o.logging.add(c.Group("Log"))
	o.twins.add(c)
	f = c.Group("In the place of running")
	f.StringVar(&o.dryRun, "dry-run", "", "print what would be done for the pod of a `manifest`, and do nothing")
	f.BoolVar(&o.validate, "validate-config", false, "say what is wrong with the configuration, or has no effect, with files and lines, and exit")
	f.BoolVar(&o.printDefaults, "print-defaults", false, "print the configuration that holds without any setting, and exit")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
	addIdle(c)
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{}
	c := o.command()
	rest, err := c.Parse(args, usage)
	if err != nil {
		return nil, err
	}
	f := c.Flags()
	o.idle, o.flags = idleSet(f), valuesOf(f)
	o.levelSet = f.Changed("log-level") || f.Changed("v")
	switch {
	case len(rest) > 0:
		return nil, fmt.Errorf("unexpected argument %q; see --help", rest[0])
	case o.version || o.printDefaults || o.validate:
	case len(args) == 0:
		return nil, errors.New("nothing says which pods to run, want --config, --config-dir, --kubeconfig or another flag; see --help")
	}
	return o, nil
}

// nodeName returns the name of the node.
func (o *options) nodeName() (string, error) {
	if o.hostname != "" {
		return strings.ToLower(strings.TrimSpace(o.hostname)), nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host's name, which --hostname-override can replace: %w", err)
	}
	return strings.ToLower(strings.TrimSpace(name)), nil
}
