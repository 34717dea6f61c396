package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

const (
	// hintChain shows by its being there which iptables the machine uses, legacy or nft
	// (https://kubernetes.io/blog/2022/09/07/iptables-chains-not-api).
	hintChain = "KUBE-IPTABLES-HINT"
	// canaryChain is gone when somebody has flushed all of a table.
	canaryChain = "KUBE-KUBELET-CANARY"
	// firewallChain drops packets from elsewhere to loopback addresses, which kernels let in
	// where a proxy has set route_localnet (CVE-2020-8558). kube-proxy makes the same.
	firewallChain = "KUBE-FIREWALL"

	// chainsEvery is how often the canaries are looked at, as in the kubelet.
	chainsEvery = time.Minute
	// iptablesTimeout is for one call; iptablesWait, in seconds, for the lock of all iptables.
	iptablesTimeout = 30 * time.Second
	iptablesWait    = "10"
)

// canaryTables are those that have a canary.
func canaryTables() []string { return []string{"mangle", "nat", "filter"} }

// keepChains keeps the chains until ctx ends. On a machine without iptables nobody looks for
// them.
func (m *Machine) keepChains(ctx context.Context) error {
	if !m.cfg.Chains {
		return nil
	}
	var programs []iptables
	for _, name := range []string{"iptables", "ip6tables"} {
		if path, err := exec.LookPath(name); err == nil {
			programs = append(programs, iptables{path: path, firewall: name == "iptables"})
		}
	}
	if len(programs) == 0 {
		m.cfg.Log.Info("there is no iptables on this machine, and no chain is made")
		return nil
	}
	m.ensureChains(ctx, programs)
	tick := time.NewTicker(chainsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			m.ensureChains(ctx, slices.DeleteFunc(slices.Clone(programs), func(p iptables) bool { return p.complete(ctx) }))
		}
	}
}

// ensureChains makes what is missing. A machine whose kernel has no IPv6 has no ip6tables
// that works, either.
func (m *Machine) ensureChains(ctx context.Context, programs []iptables) {
	for _, p := range programs {
		if err := p.ensure(ctx); err != nil && ctx.Err() == nil {
			m.cfg.Log.Warn("chains of iptables are missing", "err", err)
		}
	}
}

// iptables is the program of one family.
type iptables struct {
	path string
	// firewall is for IPv4: the kernel lets nothing in to ::1.
	firewall bool
}

// ensure makes the chains and rules that are missing.
func (p iptables) ensure(ctx context.Context) error {
	if err := p.chain(ctx, "mangle", hintChain); err != nil {
		return err
	}
	if p.firewall {
		if err := p.ensureFirewall(ctx); err != nil {
			return err
		}
	}
	for _, table := range canaryTables() {
		if err := p.chain(ctx, table, canaryChain); err != nil {
			return err
		}
	}
	return nil
}

func (p iptables) ensureFirewall(ctx context.Context) error {
	if err := p.chain(ctx, "filter", firewallChain); err != nil {
		return err
	}
	drop := []string{
		"-m", "comment", "--comment", "block incoming localnet connections", "-d", "127.0.0.0/8", "!", "-s", "127.0.0.0/8",
		"-m", "conntrack", "!", "--ctstate", "RELATED,ESTABLISHED,DNAT", "-j", "DROP",
	}
	return errors.Join(
		p.rule(ctx, "-A", firewallChain, drop...),
		p.rule(ctx, "-I", "OUTPUT", "-j", firewallChain),
		p.rule(ctx, "-I", "INPUT", "-j", firewallChain),
	)
}

// complete reports whether all canaries are there.
func (p iptables) complete(ctx context.Context) bool {
	for _, table := range canaryTables() {
		if p.run(ctx, table, "-S", canaryChain) != nil {
			return false
		}
	}
	return true
}

// chain makes a chain unless it is there.
func (p iptables) chain(ctx context.Context, table, name string) error {
	if p.run(ctx, table, "-S", name) == nil {
		return nil
	}
	return p.run(ctx, table, "-N", name)
}

// rule adds a rule of the table filter unless it is there.
func (p iptables) rule(ctx context.Context, add, chain string, rule ...string) error {
	if p.run(ctx, "filter", append([]string{"-C", chain}, rule...)...) == nil {
		return nil
	}
	return p.run(ctx, "filter", append([]string{add, chain}, rule...)...)
}

func (p iptables) run(ctx context.Context, table string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, iptablesTimeout)
	defer cancel()
	args = append([]string{"-w", iptablesWait, "-t", table}, args...)
	cmd := exec.CommandContext(ctx, p.path, args...)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", p.path, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return nil
}
