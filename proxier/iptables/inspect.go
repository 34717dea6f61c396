package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/nodekit-go/nodekit/proxier"
)

// Plan returns what a Reset to st would give to iptables-restore, a line for each
// command, and changes nothing. No line means that all of st is in force already.
// ServicePorts that cannot be programmed are reported as Problems.
func (b *Backend) Plan(ctx context.Context, st *proxier.State) ([]string, error) {
	other := &Backend{cfg: b.cfg, mark: b.mark, exec: b.exec, host: readOnly{b.host}, programs: b.programs}
	if other.programs == nil {
		// To try whether they work would load modules.
		var err error
		if other.programs, err = (detector{b.exec}).find(ctx, b.cfg.Variant, b.cfg.Families); err != nil {
			return nil, fmt.Errorf("iptables: %w", err)
		}
	}
	other.setNodeAddrs(st.Network)
	made, err := other.newRulesets(st.Network)
	if err != nil {
		return nil, fmt.Errorf("iptables: %w", err)
	}
	ports := other.admitAll(st.Ports)
	var out []string
	for _, f := range other.families() {
		saved, err := other.save(ctx, f)
		if errors.Is(err, exec.ErrNotFound) {
			continue // nor would a Reset program it
		}
		if err != nil {
			return nil, fmt.Errorf("iptables: %w", err)
		}
		s := made[f]
		s.reset(saved, ports[f])
		for line := range bytes.Lines(s.script.assemble()) {
			out = append(out, f.String()+" "+string(bytes.TrimSuffix(line, []byte(newline))))
		}
	}
	return out, nil
}

// readOnly is a host that is not changed.
type readOnly struct{ host }

func (readOnly) set(string) error { return nil }

// ensureCounter reports a counter that could be made as there.
func (h readOnly) ensureCounter(name string) error {
	_, err := h.counter(name)
	if isAbsent(err) && !isUnsupported(err) {
		return nil
	}
	return err
}

// Rules returns the rules that a ServicePort has on a node, a line for each in the form
// in which iptables-save prints them, each with its table before it. It looks at
// nothing that is in force.
func (b *Backend) Rules(n proxier.Network, p *proxier.ServicePort) []string {
	other := &Backend{cfg: b.cfg}
	other.setNodeAddrs(n)
	r := renderer{
		family: p.Key.Family, masqueradeAll: b.cfg.MasqueradeAll, pods: match(b.cfg.Local, p.Key.Family, n),
		nodeAddr: other.nodeAddr[p.Key.Family],
	}
	var k block
	r.render(&k, p, false)
	var out []string
	for _, s := range k.shared {
		out = append(out, string(s.chain.table())+" "+string(bytes.TrimSuffix(k.rule(s), []byte(newline))))
	}
	for _, c := range k.chains {
		for line := range bytes.Lines(k.rules(c)) {
			out = append(out, string(nat)+" "+string(bytes.TrimSuffix(line, []byte(newline))))
		}
	}
	return out
}
