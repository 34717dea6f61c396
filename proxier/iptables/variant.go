package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"

	"github.com/nodekit-go/nodekit/proxier"
)

// Variant is one of the two programs called iptables, which do not see each other's
// rules.
type Variant string

// The variants.
const (
	// Detect, the zero value, finds out which one the host uses.
	Detect Variant = ""
	// NFT programs nf_tables: iptables-nft.
	NFT Variant = "nft"
	// Legacy programs the older interface of the kernel: iptables-legacy.
	Legacy Variant = "legacy"
)

// programs are the commands of one family and variant.
type programs struct {
	variant                 Variant
	iptables, save, restore string
}

// programsOf names the programs of a variant; with plain, those without it in their
// name.
func programsOf(f proxier.Family, v Variant, plain bool) programs {
	base := "iptables"
	if f == proxier.IPv6 {
		base = "ip6tables"
	}
	if !plain {
		base += "-" + string(v)
	}
	return programs{variant: v, iptables: base, save: base + "-save", restore: base + "-restore"}
}

// hints are chains that the kubelet makes so that others find its variant
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-network/3178-iptables-cleanup).
func hints() [][]byte {
	return [][]byte{[]byte("\n:KUBE-IPTABLES-HINT "), []byte("\n:KUBE-KUBELET-CANARY ")}
}

// detector finds the variant that a host uses, as images of Kubernetes components do
// (https://github.com/kubernetes-sigs/iptables-wrappers).
type detector struct {
	exec Exec
}

// find returns the programs to use: those of want, or of the variant of the host.
func (d detector) find(ctx context.Context, want Variant, families []proxier.Family) (map[proxier.Family]programs, error) {
	v, plain, err := d.variant(ctx, want)
	if err != nil {
		return nil, err
	}
	out := map[proxier.Family]programs{}
	for _, f := range families {
		out[f] = programsOf(f, v, plain)
	}
	return out, nil
}

// variant returns which one to use, and whether its programs are those without it in
// their name, because there are no others.
func (d detector) variant(ctx context.Context, want Variant) (v Variant, plain bool, err error) {
	var there []Variant
	for _, v := range []Variant{NFT, Legacy} {
		if want != Detect && want != v {
			continue
		}
		if _, err := d.run(ctx, programsOf(proxier.IPv4, v, false).iptables, "--version"); err == nil {
			there = append(there, v)
		} else if !errors.Is(err, exec.ErrNotFound) {
			return "", false, err
		}
	}
	switch len(there) {
	case 0:
		v, err := d.plain(ctx, want)
		return v, true, err
	case 1:
		return there[0], false, nil
	}
	v, err = d.inUse(ctx)
	return v, false, err
}

// plain returns the variant of the command without one in its name.
func (d detector) plain(ctx context.Context, want Variant) (Variant, error) {
	out, err := d.run(ctx, "iptables", "--version")
	if err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			err = fmt.Errorf("%w: %w", proxier.ErrNotSupported, err)
		}
		return "", fmt.Errorf("no iptables command: %w; install iptables", err)
	}
	v := Legacy
	if bytes.Contains(out, []byte("nf_tables")) {
		v = NFT
	}
	if want != Detect && want != v {
		return "", fmt.Errorf("iptables here is the variant %s, and there is no iptables-%s: install it, or set Variant to %s", v, want, v)
	}
	return v, nil
}

// inUse returns the variant that has the kubelet's chains, or else more rules.
func (d detector) inUse(ctx context.Context) (Variant, error) {
	saved := func(v Variant, args ...string) []byte {
		var all []byte
		for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
			// What cannot be listed has nothing to tell.
			out, _ := d.run(ctx, programsOf(f, v, false).save, args...)
			all = append(append(all, '\n'), out...)
		}
		return all
	}
	if containsAny(saved(NFT, "-t", string(mangle)), hints()) {
		return NFT, nil
	}
	// Not with -t, which would make the table.
	legacy := saved(Legacy)
	if containsAny(legacy, hints()) {
		return Legacy, nil
	}
	rule := []byte("\n-A ")
	if n := bytes.Count(legacy, rule); n > 0 && n > bytes.Count(saved(NFT), rule) {
		return Legacy, nil
	}
	return NFT, ctx.Err()
}

// errUnusable says that a family cannot be programmed on this host.
var errUnusable = fmt.Errorf("%w: the kernel or the host does not have it", proxier.ErrNotSupported)

// try reports whether the programs of one family work here: they may not be installed, or
// the kernel may not have the family or its table nat. Who holds the lock tells nothing
// of that, nor what a process without privilege is told.
func (d detector) try(ctx context.Context, p programs) error {
	c := Command{Name: p.iptables, Args: []string{"-w", lockSeconds, "-t", string(nat), "-S", "POSTROUTING"}}
	switch r, err := d.exec.Run(ctx, c); {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%w: %w", errUnusable, err)
	case err != nil:
		return err
	case r.Status == 0:
		return nil
	case parseComplaint(r).locked, parseComplaint(r).denied:
		return commandError(c, r)
	default:
		return fmt.Errorf("%w: %w", errUnusable, commandError(c, r))
	}
}

func containsAny(data []byte, of [][]byte) bool {
	for _, s := range of {
		if bytes.Contains(data, s) {
			return true
		}
	}
	return false
}

func (d detector) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	c := Command{Name: name, Args: args}
	r, err := d.exec.Run(ctx, c)
	if err == nil && r.Status != 0 {
		err = commandError(c, r)
	}
	return r.Stdout, err
}
