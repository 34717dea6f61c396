package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/config"
	"github.com/nodekit-go/nodekit/proxier/nftables"
)

// desired returns the state that a Proxy with cfg would program first.
func desired(ctx context.Context, cfg Config) (*proxier.State, error) {
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	w, err := newWiring(cfg)
	if err != nil {
		return nil, err
	}
	got := &recorder{}
	w.cfg.Backend, w.parts = got, nil
	for _, step := range []func() error{w.loop, w.sources} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	got.done = cancel
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range w.parts {
		g.Go(func() error { return part.Run(ctx) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if got.state == nil {
		return nil, errors.New("the sources did not deliver before the end")
	}
	return got.state, nil
}

// recorder is a Backend that takes the first State and ends the run.
type recorder struct {
	state *proxier.State
	done  func()
}

// Reset implements proxier.Backend.
func (r *recorder) Reset(_ context.Context, s *proxier.State) error {
	if r.state == nil {
		r.state = s
	}
	r.done()
	return nil
}

// Apply implements proxier.Backend.
func (r *recorder) Apply(context.Context, proxier.Delta) error { return nil }

// Cleanup implements proxier.Backend.
func (r *recorder) Cleanup(context.Context) error { return nil }

// view is how to look at what a mode has in the kernel.
type view struct {
	plan func(ctx context.Context, s *proxier.State) ([]string, error)
	// rules returns what a ServicePort has, and where that is.
	rules func(n proxier.Network, p *proxier.ServicePort) (where string, lines []string)
	close func() error
}

func newView(cfg Config) (view, error) {
	switch m := modeOf(cfg.Proxy); m {
	case config.NFTables:
		return nftablesView(cfg)
	case config.IPTables:
		return iptablesView(cfg)
	case config.IPVS:
		return ipvsView(cfg)
	default:
		return view{}, errMode(m)
	}
}

func nftablesView(cfg Config) (view, error) {
	b, err := newNFTables(cfg, hooks{})
	return view{
		plan: func(ctx context.Context, s *proxier.State) ([]string, error) {
			changes, err := b.Plan(ctx, s)
			var out []string
			for _, c := range changes {
				out = append(out, c.String())
			}
			return out, err
		},
		rules: func(n proxier.Network, p *proxier.ServicePort) (string, []string) {
			family := "ip"
			if p.Key.Family == proxier.IPv6 {
				family = "ip6"
			}
			return fmt.Sprintf("in table %s %s, where names have the prefix of the generation in force", family, nftables.DefaultTable),
				b.Elements(n, p)
		},
		close: func() error { return b.Close() },
	}, err
}

func iptablesView(cfg Config) (view, error) {
	b, err := newIPTables(cfg, hooks{}, nil)
	return view{
		plan: func(ctx context.Context, s *proxier.State) ([]string, error) { return b.Plan(ctx, s) },
		rules: func(n proxier.Network, p *proxier.ServicePort) (string, []string) {
			command := "iptables-save"
			if p.Key.Family == proxier.IPv6 {
				command = "ip6tables-save"
			}
			return "by table, as " + command + " shows it", b.Rules(n, p)
		},
		close: func() error { return nil },
	}, err
}

// Plan writes what a Proxy with cfg would change in the kernel, a line for each
// element or rule, and changes nothing.
func Plan(ctx context.Context, cfg Config, out io.Writer) error {
	s, v, err := inspect(ctx, &cfg)
	if err != nil {
		return err
	}
	changes, err := v.plan(ctx, s)
	if err := errors.Join(err, v.close()); err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Fprintln(out, c)
	}
	_, err = fmt.Fprintf(out, "%d changes for %d ports of Services\n", len(changes), len(s.Ports))
	return err
}

// inspect returns what is desired, and how to look at the kernel.
func inspect(ctx context.Context, cfg *Config) (*proxier.State, view, error) {
	s, err := desired(ctx, *cfg)
	if err != nil {
		return nil, view{}, err
	}
	if err := cfg.complete(); err != nil {
		return nil, view{}, err
	}
	v, err := newView(*cfg)
	return s, v, err
}

// Explain writes what becomes of a connection to "address:port", or with another
// protocol than TCP "address:port/udp", and why.
func Explain(ctx context.Context, cfg Config, at string, out io.Writer) error {
	q, err := parseQuery(at)
	if err != nil {
		return err
	}
	s, v, err := inspect(ctx, &cfg)
	if err != nil {
		return err
	}
	defer func() { _ = v.close() }() // nothing was asked of the kernel
	local, err := addrsOf(modeOf(cfg.Proxy))
	if err != nil {
		return err
	}
	q.NodePortAddrs = nodePortsAt(cfg, local, s.Network)
	if modeOf(cfg.Proxy) == config.IPTables {
		q = unguarded(cfg, q, s.Network)
	}
	e := proxier.Explain(s, q)
	if modeOf(cfg.Proxy) == config.IPVS {
		e = guarded(e, s, q, local)
	}
	if _, err := io.WriteString(out, e.String()); err != nil || e.Port == nil {
		return err
	}
	where, lines := v.rules(s.Network, e.Port)
	fmt.Fprintf(out, "  %s:\n", where)
	for _, line := range lines {
		fmt.Fprintln(out, "    "+line)
	}
	return nil
}

// nodePortsAt returns those of the addresses of this node at which node ports answer.
func nodePortsAt(cfg Config, local []netip.Addr, n proxier.Network) []netip.Addr {
	if modeOf(cfg.Proxy) == config.IPVS {
		local = slices.DeleteFunc(slices.Clone(local), netip.Addr.IsLinkLocalUnicast)
	}
	primary, prefixes := nodePortAddresses(cfg)
	if !primary {
		return answersNodePorts(local, nil, prefixes)
	}
	return answersNodePorts(local, n.NodeAddrs, prefixes)
}

func parseQuery(s string) (proxier.Query, error) {
	at, name, _ := strings.Cut(s, "/")
	addr, err := netip.ParseAddrPort(at)
	if err != nil {
		return proxier.Query{}, fmt.Errorf("%q is not ADDRESS:PORT or ADDRESS:PORT/PROTOCOL", s)
	}
	for _, p := range []proxier.Protocol{proxier.TCP, proxier.UDP, proxier.SCTP} {
		if strings.EqualFold(name, p.String()) || name == "" {
			return proxier.Query{Addr: addr, Protocol: p}, nil
		}
	}
	return proxier.Query{}, fmt.Errorf("%q is not tcp, udp or sctp", name)
}
