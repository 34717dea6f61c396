package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/examples/internal/cli"
	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/staticpods"
)

// readPod reads the manifest of a pod, and the objects beside it; - is the standard input.
func readPod(path, nodeName string, warn io.Writer) (staticpods.Manifest, error) {
	var data []byte
	var err error
	if path == "-" {
		data, err = io.ReadAll(io.LimitReader(os.Stdin, staticpods.MaxBytes+1))
	} else {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return staticpods.Manifest{}, fmt.Errorf("read pod: %w", err)
	}
	m, err := staticpods.Decode(data, nodeName)
	if err != nil {
		return staticpods.Manifest{}, fmt.Errorf("read pod %s:\n%w", path, err)
	}
	for _, w := range m.Warnings {
		fmt.Fprintf(warn, "%s: warning: %s\n", path, w)
	}
	if m.Pod == nil {
		return staticpods.Manifest{}, fmt.Errorf("read pod %s: it holds no pod", path)
	}
	return m, nil
}

// preview prints what a node would do for the pod of a manifest, and does nothing.
func preview(ctx context.Context, cfg node.Config, path string, stdout, stderr io.Writer) error {
	m, err := readPod(path, cfg.Name, stderr)
	if err != nil {
		return err
	}
	n, err := node.New(cfg)
	if err != nil {
		return err
	}
	actions, err := n.Plan(ctx, m.Pod)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(stdout, actions.String())
	return err
}

// onceOptions are the flags of the command run.
type onceOptions struct {
	config, configDir, endpoint, hostname string
	once                                  bool
	level                                 program.LogLevel
	pod                                   string
}

const onceUsage = `kubelet run --once runs one pod to its end on a container runtime, prints what its
containers print, removes what it left, and exits with its exit code. Other pods on the
runtime are left alone.

  kubelet run --once pod.yaml      - for a pod on the standard input
`

// command returns the command run with its flags, which set o.
func (o *onceOptions) command() *cli.Command {
	o.level = program.LogLevel{Level: slog.LevelWarn}
	c := &cli.Command{Name: "run", About: "run one pod to its end", Usage: onceUsage}
	f := c.Group("Flags")
	f.BoolVar(&o.once, "once", false, "run the pod once; required, there is no other way")
	f.StringVar(&o.config, "config", "", "`file` with a KubeletConfiguration; default: that of kubelet --print-defaults")
	f.StringVar(&o.configDir, "config-dir", "", "`directory` with drop-ins for the configuration")
	f.StringVar(&o.endpoint, "container-runtime-endpoint", "", "`address` of the runtime; wins over that of the configuration")
	f.StringVar(&o.hostname, "hostname-override", "once", "`name` of the node, which becomes part of the pod's")
	f.VarP(&o.level, "log-level", "v", "`level` debug, info, warn or error")
	cli.Values(f, "log-level", "debug", "info", "warn", "error")
	return c
}

// parseOnce reads the arguments of the command run; an error says which one is wrong.
func parseOnce(args []string, usage io.Writer) (*onceOptions, error) {
	o := &onceOptions{}
	rest, err := o.command().Parse(args, usage)
	if err != nil {
		return nil, err
	}
	switch {
	case !o.once:
		return nil, errors.New("want run --once; see run --help")
	case len(rest) != 1:
		return nil, fmt.Errorf("want the file of one pod, got %d arguments; see run --help", len(rest))
	}
	o.pod = rest[0]
	return o, nil
}

// load reads the configuration, and logs what of it has no effect.
func (o *onceOptions) load(log *slog.Logger) (*kubeletconfig.KubeletConfiguration, error) {
	k := &kubeletconfig.KubeletConfiguration{}
	if o.config != "" || o.configDir != "" {
		var problems []config.Problem
		var err error
		if k, problems, err = config.LoadFiles(o.config, o.configDir, append(node.Honoured(), "featureGates")); err != nil {
			return nil, err
		}
		problems = append(problems, checkGates(k)...)
		if err := config.Err(problems); err != nil {
			return nil, err
		}
		for _, p := range problems {
			log.Warn("configuration", "problem", p.String())
		}
	}
	if o.endpoint != "" {
		k.ContainerRuntimeEndpoint = o.endpoint
	}
	return k, nil
}

// runOnce is the command run.
func runOnce(args []string, stdout, stderr io.Writer) (err error) {
	o, err := parseOnce(args, stderr)
	if err != nil {
		return help(err)
	}
	log, err := program.Logger(stderr, o.level.Level, "text")
	if err != nil {
		return err
	}
	k, err := o.load(log)
	if err != nil {
		return err
	}
	m, err := readPod(o.pod, o.hostname, stderr)
	if err != nil {
		return err
	}
	root, err := os.MkdirTemp("", "kubelet-run-")
	if err != nil {
		return err
	}
	k.HealthzPort, k.PodLogsDir, k.StaticPodPath = new(int32), filepath.Join(root, "logs"), ""
	k.EnableServer = new(false)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	code, err := node.RunOnce(ctx, node.Config{Kubelet: k, Name: o.hostname, Root: filepath.Join(root, "root"), Log: log}, m, stdout)
	if err != nil {
		return fmt.Errorf("%w; what is left of it is in %s", err, root)
	}
	if err := os.RemoveAll(root); err != nil {
		return err
	}
	if code != 0 {
		return exitError(code)
	}
	return nil
}
