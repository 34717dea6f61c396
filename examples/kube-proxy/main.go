// Command kube-proxy serves Services on this node through nftables, iptables or ipvs, from an
// API server, or from a directory of manifests and the pods of the local kubelet.
//
//	kube-proxy --config /etc/kubernetes/kube-proxy.yaml
//	kube-proxy --config /etc/kubernetes/kube-proxy.yaml --source-dir /etc/nodekit/services
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/examples/apiclient"
	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/examples/kube-proxy/proxy"
	"github.com/nodekit-go/nodekit/proxier/config"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "kube-proxy:", err)
		os.Exit(1)
	}
}

// collectOften has garbage collected when the heap has grown by seven tenths: a proxy makes
// nearly all of its garbage from the lists at its start, and keeps the peak for good. GOGC
// wins.
func collectOften() {
	const percent = 70
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}

// run is the program; it returns when a signal or an error ends it.
func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if o.version {
		_, err := fmt.Fprintln(stdout, "Kubernetes", program.Version())
		return err
	}
	cfg := proxy.Config{ConfigFile: o.config, NodeName: o.hostname, Master: o.master, SourceDir: o.sourceDir, PodsURL: o.podsURL}
	if cfg.Proxy, err = o.configuration(); err != nil {
		return err
	}
	if o.writeConfig != "" {
		return writeConfig(o.writeConfig, cfg.Proxy)
	}
	if cfg.Log, err = o.logger(cfg.Proxy, stderr); err != nil {
		return err
	}
	apiclient.LogTo(cfg.Log)
	collectOften()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	switch {
	case o.cleanup:
		return proxy.Cleanup(ctx, cfg)
	case o.initOnly:
		return proxy.PrepareHost(ctx, cfg)
	case o.dryRun:
		return proxy.Plan(ctx, cfg, stdout)
	case o.explain != "":
		return proxy.Explain(ctx, cfg, o.explain, stdout)
	}
	return proxyUntil(ctx, cfg)
}

// proxyUntil runs until a signal or an error ends it.
func proxyUntil(ctx context.Context, cfg proxy.Config) error {
	// The host may have been prepared by --init-only, and less privilege be left.
	cfg.PrepareHost = true
	p, err := proxy.New(cfg)
	if err != nil {
		return err
	}
	cfg.Log.Info("kube-proxy", "version", program.Version(), "pid", os.Getpid())
	return p.Run(ctx)
}

// configuration is the file, or else what the flags say.
func (o *options) configuration() (*config.Config, error) {
	if o.config != "" {
		return config.Load(o.config)
	}
	return o.proxy, config.Complete(o.proxy)
}

func writeConfig(path string, cfg *config.Config) error {
	c := cfg.KubeProxyConfiguration
	c.Kind, c.APIVersion = "KubeProxyConfiguration", "kubeproxy.config.k8s.io/v1alpha1"
	data, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return os.WriteFile(path, data, 0o644)
}

// logger returns the logger that flags ask for, and where they are not given, the
// file.
func (o *options) logger(cfg *config.Config, w io.Writer) (*slog.Logger, error) {
	level, format := o.level.Level, o.logFormat
	if cfg != nil && !o.levelSet && cfg.Logging.Verbosity >= program.DebugFrom {
		level = slog.LevelDebug
	}
	if format == "" && cfg != nil {
		format = cfg.Logging.Format
	}
	return program.Logger(w, level, format)
}
