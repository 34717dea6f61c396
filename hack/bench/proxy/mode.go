package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// programming is how both contenders program Services.
type programming struct {
	mode string
	// variant is that of iptables.
	variant string
}

func (p programming) String() string {
	if p.mode == "iptables" {
		return "iptables-" + p.variant
	}
	return p.mode
}

func (p programming) check() error {
	if p.mode != "nftables" && p.mode != "iptables" {
		return fmt.Errorf("mode %q is not nftables or iptables", p.mode)
	}
	if p.variant != "nft" && p.variant != "legacy" {
		return fmt.Errorf("variant %q is not nft or legacy", p.variant)
	}
	return nil
}

// prepare makes both contenders use the variant. The stock kube-proxy runs what is
// called iptables; nodekit's looks for the chain that a kubelet makes.
func (p programming) prepare(ctx context.Context, n *network, dir string) error {
	if p.mode != "iptables" {
		return nil
	}
	bin := filepath.Join(dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, base := range []string{"iptables", "ip6tables"} {
		for _, suffix := range []string{"", "-save", "-restore"} {
			program, err := exec.LookPath(base + "-" + p.variant + suffix)
			if err == nil {
				err = os.Symlink(program, filepath.Join(bin, base+suffix))
			}
			errs = append(errs, err)
		}
		_, err := output(ctx, "nsenter", "--net=/run/netns/"+n.node, base+"-"+p.variant, "-t", "mangle", "-N", "KUBE-IPTABLES-HINT")
		errs = append(errs, err, os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH")))
	}
	return errors.Join(errs...)
}
