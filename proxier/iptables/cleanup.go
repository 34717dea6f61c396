package iptables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/nodekit-go/nodekit/proxier"
)

// Cleanup implements proxier.Backend: it removes kube-proxy's chains and the jumps to
// them, of both families and both variants, whoever made them. KUBE-FIREWALL stays,
// with the rule that guards 127.0.0.1: it is the kubelet's, too. A chain that a rule in
// somebody else's chain leads to is emptied and stays; a rule in a chain of the kernel
// goes.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.inForce, b.rulesets = false, nil
	b.watched.forget()
	return Cleanup(ctx, b.exec, b.cfg.Variant)
}

// Cleanup does what (*Backend).Cleanup does, for one variant or, with Detect, for all
// that are installed, and removes the chains of kube-proxy's ipvs mode, too. A nil Exec
// runs the host's commands. No command there is not an error: it has left nothing.
func Cleanup(ctx context.Context, e Exec, v Variant) error {
	return cleanVariants(ctx, e, v, func(Variant) ownership { return removable })
}

// CleanOthers removes what another proxy has left beside a Backend that is in force:
// all that Cleanup removes of the variant that is not used, and of the other one the
// chains of kube-proxy's ipvs mode.
func (b *Backend) CleanOthers(ctx context.Context) error {
	used := b.cfg.Variant
	for _, s := range b.watched.get() { // a Reset may run
		used = s.programs.variant
	}
	return cleanVariants(ctx, b.exec, Detect, func(v Variant) ownership {
		if v == used {
			return ofIPVS
		}
		return removable
	})
}

// variant is the one in use, Detect as long as that is not known.
func (b *Backend) variant() Variant {
	for _, p := range b.programs {
		return p.variant
	}
	return b.cfg.Variant
}

// ownership decides which chains go.
type ownership func(table tableName, chain string) bool

// ofIPVS reports whether a chain is one that kube-proxy's ipvs mode alone has.
func ofIPVS(table tableName, chain string) bool {
	switch chain {
	case "KUBE-NODE-PORT":
		return table == nat || table == filter
	case "KUBE-LOAD-BALANCER":
		return table == nat
	case "KUBE-SOURCE-RANGES-FIREWALL", "KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER":
		return table == filter
	}
	return false
}

func removable(table tableName, chain string) bool {
	return owned(table, chain) || ofIPVS(table, chain)
}

func cleanVariants(ctx context.Context, e Exec, v Variant, goes func(Variant) ownership) error {
	if e == nil {
		e = hostExec{}
	}
	var errs []error
	found := false
	for _, of := range []Variant{NFT, Legacy} {
		if v != Detect && v != of {
			continue
		}
		there, err := cleanVariant(ctx, e, goes(of), func(f proxier.Family) programs { return programsOf(f, of, false) })
		found = found || there
		errs = append(errs, err)
	}
	if !found {
		_, err := cleanVariant(ctx, e, goes(v), func(f proxier.Family) programs { return programsOf(f, v, true) })
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cleanVariant cleans both families, and reports whether the commands are there.
func cleanVariant(ctx context.Context, e Exec, goes ownership, of func(proxier.Family) programs) (found bool, err error) {
	var errs []error
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		b := &Backend{cfg: Config{Exec: e}, exec: e, programs: map[proxier.Family]programs{f: of(f)}, turn: make(chan struct{}, 1)}
		b.cfg.complete()
		saved, err := b.save(ctx, f)
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		found = true
		if err == nil {
			var s script
			s.clean(saved, goes)
			if text := s.assemble(); text != nil {
				_, err = b.feed(ctx, f, text)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("iptables: remove the chains of %s: %w", f, err))
		}
	}
	return found, errors.Join(errs...)
}

// clean fills the script with what removes all chains that go.
func (s *script) clean(saved map[tableName]*savedTable, goes ownership) {
	for _, t := range tables() {
		if saved[t] != nil {
			s.cleanTable(t, saved[t], goes)
		}
	}
}

func (s *script) cleanTable(t tableName, table *savedTable, goes ownership) {
	needed := map[string]bool{} // by rules of others
	for _, c := range table.chains {
		if goes(t, c.name) {
			continue
		}
		for rule := range c.lines() {
			switch to := target(rule); {
			case !goes(t, to):
			case c.builtin || owned(t, c.name):
				s.part(t, deletes).as('D', rule)
			default:
				needed[to] = true
			}
		}
	}
	for _, c := range table.chains {
		if !goes(t, c.name) {
			continue
		}
		s.part(t, chains).declare([]byte(c.name))
		if !needed[c.name] {
			s.part(t, drops).drop([]byte(c.name))
		}
	}
}

func (w *watched) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sentinels, w.named = nil, named{}
}
