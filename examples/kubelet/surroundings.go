package main

import (
	"context"
	"log/slog"

	"golang.org/x/sync/errgroup"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/internal/sdnotify"
	"github.com/nodekit-go/nodekit/examples/kubelet/machine"
	"github.com/nodekit-go/nodekit/examples/kubelet/node"
)

// surround returns a node on a machine that is prepared and watched, and that tells systemd
// when it serves, that it is alive and when it ends.
func surround(cfg node.Config) (*node.Node, error) {
	service, err := sdnotify.This()
	if err != nil {
		return nil, err
	}
	m := thisMachine(cfg.Kubelet, cfg.Log)
	if err := m.Prepare(); err != nil {
		return nil, err
	}
	var n *node.Node
	more := cfg.Beside
	cfg.Serving = func() { say(service.Ready(), cfg.Log) }
	cfg.Beside = func(ctx context.Context, tell node.Tell) error {
		defer func() { say(service.Stopping(), cfg.Log) }()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return m.Run(ctx, machine.Tell(tell)) })
		g.Go(func() error { return service.Watchdog(ctx, n.Stuck, cfg.Log) })
		g.Go(func() error { <-ctx.Done(); return nil })
		if more != nil {
			g.Go(func() error { return more(ctx, tell) })
		}
		return g.Wait()
	}
	if cfg.Client != nil {
		cfg.Collectors = append(cfg.Collectors, countRequests()...)
	}
	n, err = node.New(cfg)
	return n, err
}

// say logs that systemd could not be told.
func say(err error, log *slog.Logger) {
	if err != nil {
		log.Warn("systemd does not know how this program is", "err", err)
	}
}

// thisMachine is the machine as the configuration wants it. With the gate
// KubeletInUserNamespace set its kernel is left alone: it is not the kubelet's.
func thisMachine(k *kubeletconfig.KubeletConfiguration, log *slog.Logger) *machine.Machine {
	mode := machine.SetKernel
	switch {
	case k.ProtectKernelDefaults:
		mode = machine.ProtectKernel
	case k.FeatureGates[node.GateUserNamespace]:
		mode = machine.LeaveKernel
	}
	return machine.New(machine.Config{
		FailSwapOn:   *k.FailSwapOn,
		Kernel:       mode,
		Chains:       *k.MakeIPTablesUtilChains,
		OOMScoreAdj:  k.OOMScoreAdj,
		MaxOpenFiles: uint64(k.MaxOpenFiles), //nolint:gosec // it is not negative: the configuration is valid
		Log:          log,
	})
}
