package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// DefaultTable is the name of the tables where Config names none.
const DefaultTable = "nodekit-proxy"

// DefaultMasqueradeBit is the bit of the packet mark where Config names none:
// that of kube-proxy (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/).
const DefaultMasqueradeBit = 14

// Config configures a Backend. The zero value works.
type Config struct {
	// Table is the name of the tables, one per family, that the Backend owns.
	// Everything in them may be removed at any time. Empty means DefaultTable.
	Table string
	// NetNS is the path of the network namespace to program, such as
	// /run/netns/node. Empty means that of the process.
	NetNS string
	// Families are the families to program; empty means both. ServicePorts of
	// another family are reported to Problem.
	Families []proxier.Family
	// MasqueradeAll masquerades every connection to a cluster IP.
	MasqueradeAll bool
	// MasqueradeBit is the bit of the packet mark, 0 to 31, that tells packets to
	// masquerade on their way through the kernel. Nil means DefaultMasqueradeBit.
	MasqueradeBit *int
	// Local tells traffic of pods from that of others.
	Local Local
	// NodePortAddresses limit node ports to the node's addresses in one of these
	// prefixes, and NodePortPrimary to Network.NodeAddrs of the State; with both,
	// node ports answer at either. A family without any answers at all addresses of
	// the node. Loopback never answers.
	NodePortAddresses []netip.Prefix
	NodePortPrimary   bool
	// Problem is called, from within Apply and Reset, for each thing that a
	// ServicePort asks for and does not get. Nil means that problems are logged
	// as warnings.
	Problem func(Problem)
	// Unswept is told when an old generation could not be removed; Sweep and the next
	// Reset try again. Nil is off.
	Unswept func(error)
	// Deaf is told, by Watch, why changes by others are not noticed at present, and with nil
	// that they are again. Nil is off.
	Deaf func(error)
	// Degraded is told, after each Reset that succeeded, which families the nf_tables of
	// this kernel does not have, so that their ServicePorts are not programmed, and with
	// nil that it has all. Each Reset tries again. A nil function means that it is logged
	// as a warning.
	Degraded func(error)
	// Log receives what has no caller to go to; nil means none.
	Log *slog.Logger
}

// Problem says what is not programmed for a ServicePort, and why. The rest of
// it is in force.
type Problem struct {
	Key proxier.Key
	// Field is the field of the ServicePort.
	Field string
	// Reason is a sentence for an operator.
	Reason string
}

// String returns the problem on one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s %s %s: %s: %s", p.Key.PortName, p.Key.Protocol, p.Key.Family, p.Field, p.Reason)
}

// Backend programs Services into nf_tables. It is used by one goroutine at a
// time, as proxier.Backend says; Watch alone runs beside. Close it when it is no
// longer needed.
type Backend struct {
	cfg  Config
	mark uint32
	conn *conn
	// kernelFamily is tableFamily.
	kernelFamily func(proxier.Family) nft.TableFamily
	// inForce tells that the fields below are what the kernel has.
	inForce bool
	// network is that of the State last reset to; local is Config.Local with it.
	network proxier.Network
	local   Local
	// families are those of Config that the kernel has; generations has one for each.
	families    []proxier.Family
	generations map[proxier.Family]*generation
	entries     map[proxier.Key]*entry
	refs        counts
	numbers     numbers
	// building is the generation that a Reset is building or has failed to build;
	// 0 means none. affinity is the one that made the map of pinned clients.
	building int
	affinity int
	// unswept tells that older generations may be left.
	unswept  bool
	watchers watchers
	// affinitySize is how many pinned clients a family may have.
	affinitySize uint32
}

var (
	_ proxier.Backend = (*Backend)(nil)
	_ proxier.Sweeper = (*Backend)(nil)
)

// New returns a Backend. It does not touch the kernel. An error names the field
// of cfg that is not valid.
func New(cfg Config) (*Backend, error) {
	bit := DefaultMasqueradeBit
	if cfg.MasqueradeBit != nil {
		bit = *cfg.MasqueradeBit
	}
	if cfg.Table == "" {
		cfg.Table = DefaultTable
	}
	if len(cfg.Families) == 0 {
		cfg.Families = []proxier.Family{proxier.IPv4, proxier.IPv6}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Unswept == nil {
		cfg.Unswept = func(error) {}
	}
	if cfg.Deaf == nil {
		cfg.Deaf = func(error) {}
	}
	if cfg.Degraded == nil {
		cfg.Degraded = func(err error) {
			if err != nil {
				cfg.Log.Warn("the rules are in force, but something does not work", "err", err)
			}
		}
	}
	if err := cfg.validate(bit); err != nil {
		return nil, fmt.Errorf("nftables: %w", err)
	}
	return &Backend{cfg: cfg, mark: 1 << bit, affinitySize: defaultAffinitySize, kernelFamily: tableFamily}, nil
}

func (c *Config) validate(bit int) error {
	// NFT_TABLE_MAXNAMELEN of linux/netfilter/nf_tables.h, without the final zero.
	const maxName = 255
	if len(c.Table) > maxName {
		return fmt.Errorf("config: Table %q is longer than %d bytes", c.Table, maxName)
	}
	if bit < 0 || bit > 31 {
		return fmt.Errorf("config: MasqueradeBit %d is not in 0…31", bit)
	}
	for i, f := range c.Families {
		if f != proxier.IPv4 && f != proxier.IPv6 {
			return fmt.Errorf("config: Families: %d is not a family", f)
		}
		if slices.Contains(c.Families[:i], f) {
			return fmt.Errorf("config: Families: %s stands there twice", f)
		}
	}
	for _, p := range c.NodePortAddresses {
		if !p.IsValid() {
			return fmt.Errorf("config: NodePortAddresses: invalid prefix %v", p)
		}
	}
	return c.Local.Validate()
}

// Close closes the connection to the kernel. What is in force stays so.
func (b *Backend) Close() error {
	b.inForce = false
	return b.hangUp()
}

func (b *Backend) hangUp() error {
	if b.conn == nil {
		return nil
	}
	c := b.conn
	b.conn = nil
	return c.close()
}

// connect returns the connection, which it opens if there is none.
func (b *Backend) connect() (*conn, error) {
	if b.conn != nil {
		return b.conn, nil
	}
	c, err := dial(b.cfg.NetNS)
	if err != nil {
		return nil, err
	}
	b.conn = c
	b.watchers.add(c.nl.PID())
	return c, nil
}

// flush commits what was buffered. After an error the connection is closed: the
// next caller gets a new one, without the answers to this transaction.
func (b *Backend) flush(ctx context.Context) error {
	err := b.conn.flush(ctx)
	if err != nil {
		_ = b.hangUp()
	}
	return err
}

// nodePortAddrs returns where node ports answer.
func (b *Backend) nodePortAddrs() []netip.Prefix {
	out := slices.Clone(b.cfg.NodePortAddresses)
	if b.cfg.NodePortPrimary {
		for _, a := range b.network.NodeAddrs {
			out = append(out, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
		}
	}
	return out
}

// policy returns how connections to cluster IPs of a family are masqueraded.
func (b *Backend) policy(f proxier.Family) policy {
	switch {
	case b.cfg.MasqueradeAll:
		return masqueradeAll
	case b.local.Detects(f):
		return masqueradeForeign
	}
	return masqueradeNothing
}

// errNotInForce is returned by Apply before the first Reset, and after an error.
var errNotInForce = errors.New("nothing is in force to change: call Reset first")

// Apply implements proxier.Backend. The work is proportional to the ServicePorts
// of d: nothing is listed, and other ServicePorts are not looked at. All is
// committed at once, or when it has more than a few thousand elements, new and
// changed endpoints first.
func (b *Backend) Apply(ctx context.Context, d proxier.Delta) error {
	if d.Empty() {
		return nil
	}
	if err := b.apply(ctx, d); err != nil {
		b.inForce = false
		return fmt.Errorf("nftables: apply %d changed and %d removed service ports to table %s: %w",
			len(d.Update), len(d.Remove), b.cfg.Table, err)
	}
	return nil
}

func (b *Backend) apply(ctx context.Context, d proxier.Delta) error {
	if !b.inForce {
		return errNotInForce
	}
	if _, err := b.connect(); err != nil {
		return err
	}
	batch := &batch{}
	for _, k := range d.Remove {
		b.change(batch, k, nil)
	}
	for _, p := range d.Update {
		if old := b.entries[p.Key]; old != nil && old.input.Equal(p) {
			continue
		}
		b.change(batch, p.Key, p)
	}
	if err := b.commit(ctx, batch); err != nil {
		return err
	}
	b.numbers.settle()
	return nil
}

// commit writes a batch.
func (b *Backend) commit(ctx context.Context, batch *batch) error {
	early, late := batch.phases()
	if len(early)+len(late) < transaction && len(batch.pinned) == 0 {
		// One transaction changes all at once: a connection that has looked up the old
		// number of slots and finds one gone takes the first.
		early, late = nil, append(early, late...)
	}
	if err := b.write(ctx, early, nil); err != nil {
		return err
	}
	return b.write(ctx, late, batch.pinned)
}

// change puts port in the place of what is in force for a key; a nil port
// removes it.
func (b *Backend) change(batch *batch, k proxier.Key, port *proxier.ServicePort) {
	if port != nil && !b.programs(port) {
		return
	}
	old := b.entries[k]
	next := b.newEntry(old, port)
	if old == nil && next == nil {
		return
	}
	p := b.policy(k.Family)
	batch.change(k.Family, render(old, p), render(next, p), b.refs)
	b.numbers.release(old, next)
	if next == nil {
		delete(b.entries, k)
		return
	}
	b.entries[k] = next
}

// programs reports whether the family and protocol of port can be programmed,
// and reports a problem if not.
func (b *Backend) programs(port *proxier.ServicePort) bool {
	k := port.Key
	if b.generations[k.Family] == nil {
		if slices.Contains(b.cfg.Families, k.Family) {
			return false // Degraded was told
		}
		b.report(Problem{k, "Key.Family", "this family is not programmed here"})
		return false
	}
	switch k.Protocol {
	case proxier.TCP, proxier.UDP, proxier.SCTP:
		return true
	}
	b.report(Problem{k, "Key.Protocol", fmt.Sprintf("protocol %d is none of TCP, UDP, SCTP", k.Protocol)})
	return false
}

// newEntry returns the entry that follows old; nil for a nil port.
func (b *Backend) newEntry(old *entry, port *proxier.ServicePort) *entry {
	if port == nil {
		return nil
	}
	admitted := admit(port, b.network.NodeAddrs, b.report)
	n := old.next(admitted)
	n.input = port
	if admitted.Affinity > 0 {
		var ok bool
		if n.pins, ok = b.numbers.pins(old, admitted); !ok {
			b.report(Problem{port.Key, "Affinity", fmt.Sprintf(
				"clients are not pinned: more than %d ServicePorts have affinity, or this one has more than %d endpoints",
				(maxPinLists-1)/2, maxPins)})
		}
	}
	return n
}

func (b *Backend) report(p Problem) {
	if b.cfg.Problem != nil {
		b.cfg.Problem(p)
		return
	}
	b.cfg.Log.Warn("service port is not programmed in full",
		"service", p.Key.PortName.String(), "protocol", p.Key.Protocol.String(),
		"family", p.Key.Family.String(), "field", p.Field, "reason", p.Reason)
}

// transaction is how many elements go into one transaction, and messageWeight for how
// many of them a message of a chain or rule counts: a commit holds the mutex of
// nf_tables, the whole must fit into the socket's buffer, and so must the answers, one
// per message. On the other hand each commit waits for all CPUs once.
const (
	transaction   = 24 * chunk
	messageWeight = 2
)

// write commits the rules of affinity chains, and then ops, as many of both in
// one transaction as fit. Changes of one element are never spread over two.
// Rules may come before the elements that late holds: they need no more than
// early has brought.
func (b *Backend) write(ctx context.Context, ops []op, pinned []pinnedOp) error {
	for len(pinned) > 0 || len(ops) > 0 {
		room := transaction
		for ; len(pinned) > 0 && room > 0; pinned = pinned[1:] {
			messages, err := b.generations[pinned[0].family].setPinned(b.conn.nft, pinned[0].list)
			if err != nil {
				return err
			}
			room -= messageWeight * messages
		}
		n := 0
		for ; n < len(ops) && room > 0; n++ {
			messages, err := b.generations[ops[n].family].ensure(b.conn.nft, ops[n].new.to)
			if err != nil {
				return err
			}
			room -= 1 + messageWeight*messages
		}
		if err := b.buffer(b.conn.nft, ops[:n]); err != nil {
			return err
		}
		if err := b.flush(ctx); err != nil {
			return err
		}
		ops = ops[n:]
	}
	return nil
}

func (b *Backend) buffer(c *nft.Conn, ops []op) error {
	byFamily := make(map[proxier.Family][]op, len(b.generations))
	for _, o := range ops {
		byFamily[o.family] = append(byFamily[o.family], o)
	}
	for _, f := range b.families {
		if err := b.generations[f].write(c, byFamily[f]); err != nil {
			return err
		}
	}
	return nil
}

// Cleanup implements proxier.Backend: it deletes the tables. Nothing else is
// ever made, and what others have put into the tables goes too.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.inForce, b.entries, b.building, b.affinity, b.unswept = false, nil, 0, 0, false
	var errs []error
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		c, err := b.connect()
		if err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
		c.nft.DelTable(b.table(f))
		err = b.flush(ctx)
		if err != nil && !isNotFound(err) {
			errs = append(errs, fmt.Errorf("nftables: delete table %s of %s: %w", b.cfg.Table, f, privileged(err)))
		}
	}
	return errors.Join(errs...)
}

// privileged adds to an error what a process without privilege needs.
func privileged(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: CAP_NET_ADMIN in the network namespace is needed", err)
	}
	return err
}
