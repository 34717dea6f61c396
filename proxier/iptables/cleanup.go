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
// with the rule that guards 127.0.0.1: it is the kubelet's, too. A chain that somebody
// else's rule leads to is emptied and stays.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.inForce, b.rulesets = false, nil
	b.watched.forget()
	return Cleanup(ctx, b.exec, b.cfg.Variant)
}

// Cleanup does what (*Backend).Cleanup does, for one variant or, with Detect, for all
// that are installed. A nil Exec runs the host's commands. No command there is not an
// error: it has left nothing.
func Cleanup(ctx context.Context, e Exec, v Variant) error {
	if e == nil {
		e = hostExec{}
	}
	var errs []error
	found := false
	for _, of := range []Variant{NFT, Legacy} {
		if v != Detect && v != of {
			continue
		}
		there, err := cleanVariant(ctx, e, of, false)
		found = found || there
		errs = append(errs, err)
	}
	if !found {
		_, err := cleanVariant(ctx, e, v, true)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// cleanVariant cleans both families, and reports whether the commands are there.
func cleanVariant(ctx context.Context, e Exec, v Variant, plain bool) (found bool, err error) {
	var errs []error
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		p := programsOf(f, v, plain)
		b := &Backend{cfg: Config{Exec: e}, exec: e, programs: map[proxier.Family]programs{f: p}}
		b.cfg.complete()
		saved, err := b.save(ctx, f)
		if errors.Is(err, exec.ErrNotFound) {
			continue
		}
		found = true
		if err == nil {
			var s script
			s.clean(saved)
			if text := s.assemble(); text != nil {
				err = b.feed(ctx, f, text)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("iptables: remove the chains of %s: %w", f, err))
		}
	}
	return found, errors.Join(errs...)
}

// clean fills the script with what removes all that belongs to kube-proxy.
func (s *script) clean(saved map[tableName]*savedTable) {
	for _, t := range tables() {
		table := saved[t]
		if table == nil {
			continue
		}
		needed := map[string]bool{} // by rules of others
		for _, c := range table.chains {
			if owned(t, c.name) {
				continue
			}
			for rule := range c.lines() {
				switch to := target(rule); {
				case !owned(t, to):
				case c.builtin:
					s.part(t, deletes).as('D', rule)
				default:
					needed[to] = true
				}
			}
		}
		for _, c := range table.chains {
			if !owned(t, c.name) {
				continue
			}
			s.part(t, chains).declare([]byte(c.name))
			if !needed[c.name] {
				s.part(t, drops).drop([]byte(c.name))
			}
		}
	}
}

func (w *watched) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sentinels = nil
}
