package main

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/nodekit-go/nodekit/cni"
)

// program is one run of a command.
type program struct {
	*options
	invoker *cni.Invoker
	out     io.Writer
}

func (p *program) commands() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"add": p.add, "del": p.del, "check": p.check, "status": p.status, "gc": p.gc,
	}
}

func (p *program) attachment() cni.Attachment {
	return cni.Attachment{ContainerID: p.id, IfName: p.ifname, NetNS: p.netns}
}

func (p *program) add(ctx context.Context) error {
	network, err := cni.Load(p.confDir)
	if err != nil {
		return err
	}
	a := p.attachment()
	if a.Capabilities.PortMappings, err = p.mappings(); err != nil {
		return err
	}
	result, err := p.invoker.Add(ctx, network, a)
	if err != nil {
		return err
	}
	return p.printResult(network, result)
}

// del works without a configuration: what add did is recorded.
func (p *program) del(ctx context.Context) error {
	network, err := cni.Load(p.confDir)
	if err != nil && !errors.Is(err, cni.ErrNoNetwork) {
		return err
	}
	if err := p.invoker.Del(ctx, network, p.attachment()); err != nil {
		return err
	}
	return p.printWord("detached")
}

func (p *program) check(ctx context.Context) error {
	if err := p.invoker.Check(ctx, p.attachment().Key()); err != nil {
		return err
	}
	return p.printWord("as it was added")
}

func (p *program) status(ctx context.Context) error {
	attached, err := p.invoker.Attachments()
	if err != nil {
		return err
	}
	network, err := cni.Load(p.confDir)
	if err == nil {
		err = p.invoker.Status(ctx, network)
	}
	return errors.Join(p.printStatus(network, attached, err), err)
}

func (p *program) gc(ctx context.Context) error {
	network, err := cni.Load(p.confDir)
	if err != nil && !errors.Is(err, cni.ErrNoNetwork) {
		return err
	}
	kept, err := p.kept()
	if err != nil {
		return err
	}
	removed, err := p.invoker.GC(ctx, network, func(context.Context) ([]cni.Key, error) { return p.valid(kept) })
	return errors.Join(p.printRemoved(removed), err)
}

// valid returns what gc keeps: attachments that were named, and those whose
// namespace is still there.
func (p *program) valid(kept []cni.Key) ([]cni.Key, error) {
	if p.all {
		return kept, nil
	}
	attached, err := p.invoker.Attachments()
	for _, a := range attached {
		if _, err := os.Stat(a.NetNS); err == nil && a.State == cni.Attached {
			kept = append(kept, a.Key)
		}
	}
	return kept, err
}
