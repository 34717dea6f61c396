package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// DefaultTable is the name of the tables where Config names none.
const DefaultTable = "nodekit-ipvs"

// The whole table is replaced in one transaction, which is one sendmsg: its elements take
// up to 120 bytes each. The numbers are limits; nothing is set aside.
const (
	writeBuffer = 64 << 20
	readBuffer  = 4 << 20
)

// sizeofNfgenmsg is the length of struct nfgenmsg of linux/netfilter/nfnetlink.h.
const sizeofNfgenmsg = 4

// chunk is how many elements go into one message, whose length is kept in 16 bits.
const chunk = 400

// tables are the Backend's tables of nf_tables, one per family, in one network namespace.
type tables struct {
	netns    string
	name     string
	families []proxier.Family
	// conn is nil while there is no connection. After an error there is none: answers to
	// the failed transaction may wait in it.
	conn *nft.Conn
	nl   *netlink.Conn
}

func (t *tables) close() error {
	if t.conn == nil {
		return nil
	}
	c := t.conn
	t.conn, t.nl = nil, nil
	return c.CloseLasting()
}

func (t *tables) connect() error {
	if t.conn != nil {
		return nil
	}
	opts := []nft.ConnOption{nft.AsLasting(), nft.WithSockOptions(func(nl *netlink.Conn) error {
		t.nl = nl
		return errors.Join(nl.SetWriteBuffer(writeBuffer), nl.SetReadBuffer(readBuffer))
	})}
	if t.netns != "" {
		ns, err := os.Open(t.netns)
		if err != nil {
			return fmt.Errorf("open network namespace: %w", err)
		}
		defer ns.Close()
		opts = append(opts, nft.WithNetNSFd(int(ns.Fd())))
	}
	c, err := nft.New(opts...)
	if err != nil {
		if t.nl != nil {
			_ = t.nl.Close()
			t.nl = nil
		}
		return fmt.Errorf("connect to nf_tables over netlink: %w", err)
	}
	t.conn = c
	return nil
}

// flush commits what was buffered as one transaction.
func (t *tables) flush(ctx context.Context) error {
	err := within(ctx, t.nl, t.conn.Flush)
	if err != nil {
		_ = t.close()
	}
	return err
}

func (t *tables) table(f proxier.Family) *nft.Table {
	family := nft.TableFamilyIPv4
	if f == proxier.IPv6 {
		family = nft.TableFamilyIPv6
	}
	return &nft.Table{Name: t.name, Family: family}
}

// reset replaces the tables by fresh ones with these elements, all at once.
func (t *tables) reset(ctx context.Context, programs []program, elements []element) error {
	if err := t.connect(); err != nil {
		return err
	}
	for i := range programs {
		p := &programs[i]
		// To delete a table that may not be there it is made first.
		table := t.table(p.family)
		t.conn.AddTable(table)
		t.conn.DelTable(table)
		t.conn.AddTable(table)
		for o := range objectCount {
			if err := t.conn.AddSet(t.set(p.family, o), nil); err != nil {
				return fmt.Errorf("add set %s: %w", o, err)
			}
		}
		for _, c := range p.chains() {
			t.addChain(table, c)
		}
	}
	if err := t.buffer(nil, elements); err != nil {
		return err
	}
	err := t.flush(ctx)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EAFNOSUPPORT) {
		return fmt.Errorf("replace table %s: %w: %w: the kernel has no nf_tables for IPv4 and IPv6", t.name, proxier.ErrNotSupported, err)
	}
	if err != nil {
		return fmt.Errorf("replace table %s: %w", t.name, err)
	}
	return nil
}

func (t *tables) addChain(table *nft.Table, c chain) {
	accept := nft.ChainPolicyAccept
	added := t.conn.AddChain(&nft.Chain{
		Table: table, Name: c.name, Type: c.kind, Hooknum: c.hook, Priority: &c.priority, Policy: &accept,
	})
	for _, r := range c.rules {
		if !c.all {
			r = newConnection().then(r...)
		}
		t.conn.AddRule(&nft.Rule{Table: table, Chain: added, Exprs: r})
	}
}

// apply deletes and adds elements, all at once.
func (t *tables) apply(ctx context.Context, gone, come []element) error {
	if len(gone)+len(come) == 0 {
		return nil
	}
	if err := t.connect(); err != nil {
		return err
	}
	if err := t.buffer(gone, come); err != nil {
		return err
	}
	if err := t.flush(ctx); err != nil {
		return fmt.Errorf("change table %s: %w", t.name, err)
	}
	return nil
}

// buffer takes elements that are sorted by object and family.
func (t *tables) buffer(gone, come []element) error {
	for part := range sameSet(gone) {
		if err := t.conn.SetDeleteElements(t.set(part[0].family, part[0].in), encodeAll(part, false)); err != nil {
			return fmt.Errorf("delete elements of %s: %w", part[0].in, err)
		}
	}
	for part := range sameSet(come) {
		if err := t.conn.SetAddElements(t.set(part[0].family, part[0].in), encodeAll(part, true)); err != nil {
			return fmt.Errorf("add elements of %s: %w", part[0].in, err)
		}
	}
	return nil
}

// sameSet cuts elements into runs of one object and family, of a chunk at most.
func sameSet(all []element) func(yield func([]element) bool) {
	return func(yield func([]element) bool) {
		for len(all) > 0 {
			n := 1
			for n < len(all) && n < chunk && all[n].in == all[0].in && all[n].family == all[0].family {
				n++
			}
			if !yield(all[:n]) {
				return
			}
			all = all[n:]
		}
	}
}

func encodeAll(part []element, withValue bool) []nft.SetElement {
	out := make([]nft.SetElement, len(part))
	for i, e := range part {
		out[i] = e.set(withValue)
	}
	return out
}

// set describes the set or map of an object. Its number is the Backend's own: the library
// would take it from a counter of the whole process.
func (t *tables) set(f proxier.Family, o object) *nft.Set {
	s := &nft.Set{Table: t.table(f), ID: uint32(f)<<8 + uint32(o) + 1, Name: o.String()}
	addr := nft.TypeIPAddr
	if f == proxier.IPv6 {
		addr = nft.TypeIP6Addr
	}
	types := []nft.SetDatatype{}
	for _, p := range specOf(o).parts {
		switch p {
		case partProto:
			types = append(types, nft.TypeInetProto)
		case partPort:
			types = append(types, nft.TypeInetService)
		case partSource:
			s.Interval = true
			types = append(types, addr)
		case partAddr:
			types = append(types, addr)
		}
	}
	s.KeyType, s.Concatenation = nft.MustConcatSetType(types...), len(types) > 1
	if o == externalLocal {
		s.IsMap, s.DataType = true, nft.TypeMark
	}
	return s
}

// list returns the elements of an object, in all families. No table is no element.
func (t *tables) list(ctx context.Context, o object) ([]element, error) {
	var out []element
	for _, f := range t.families {
		answers, err := t.dump(ctx, f, unix.NFT_MSG_GETSETELEM,
			netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: terminated(t.name)},
			netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: terminated(o.String())})
		if isNotListed(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list %s of table %s: %w", o, t.name, err)
		}
		for _, m := range answers {
			found, err := decodeElements(o, f, m.Data)
			if err != nil {
				return nil, fmt.Errorf("list %s of table %s: %w", o, t.name, err)
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

func terminated(s string) []byte { return append([]byte(s), 0) }

// dump asks for all objects of a kind that the attributes describe. What the library offers
// for it loses the kernel's error.
func (t *tables) dump(ctx context.Context, f proxier.Family, request uint16, attrs ...netlink.Attribute) ([]netlink.Message, error) {
	if err := t.connect(); err != nil {
		return nil, err
	}
	data, err := netlink.MarshalAttributes(attrs)
	if err != nil {
		return nil, err
	}
	answers, err := execute(ctx, t.nl, netlink.Message{
		Header: netlink.Header{Type: netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | request), Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{byte(t.table(f).Family), unix.NFNETLINK_V0, 0, 0}, data...),
	})
	if err != nil && !isNotListed(err) {
		_ = t.close()
	}
	return answers, err
}

// remove deletes the tables of both families. Not there is not an error.
func (t *tables) remove(ctx context.Context) error {
	var errs []error
	for _, f := range []proxier.Family{proxier.IPv4, proxier.IPv6} {
		if err := t.connect(); isNotFound(err) {
			return nil
		} else if err != nil {
			return err
		}
		t.conn.DelTable(t.table(f))
		if err := t.flush(ctx); err != nil && !isNotFound(err) {
			errs = append(errs, fmt.Errorf("delete table %s of %s: %w", t.name, f, err))
		}
	}
	return errors.Join(errs...)
}

// isNotFound reports that a table, its whole family or all of nf_tables is not there, down to
// the protocol of the socket.
func isNotFound(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOENT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP, unix.EPROTONOSUPPORT},
		func(target error) bool { return errors.Is(err, target) })
}

// isNotListed is isNotFound for a list: a kernel without nf_tables answers that it is invalid to
// ask for one (nfnetlink_rcv_msg in net/netfilter/nfnetlink.c).
func isNotListed(err error) bool { return isNotFound(err) || errors.Is(err, unix.EINVAL) }

// generation returns the number of the last transaction in the namespace, whoever made it.
func (t *tables) generation(ctx context.Context) (uint32, error) {
	if err := t.connect(); err != nil {
		return 0, err
	}
	answers, err := execute(ctx, t.nl, netlink.Message{
		Header: netlink.Header{Type: unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETGEN, Flags: netlink.Request},
		Data:   make([]byte, sizeofNfgenmsg),
	})
	if err != nil {
		_ = t.close()
		return 0, fmt.Errorf("ask nf_tables for its generation: %w", err)
	}
	for _, m := range answers {
		if len(m.Data) < sizeofNfgenmsg {
			continue
		}
		d, err := netlink.NewAttributeDecoder(m.Data[sizeofNfgenmsg:])
		if err != nil {
			return 0, err
		}
		d.ByteOrder = binary.BigEndian
		for d.Next() {
			if d.Type() == unix.NFTA_GEN_ID {
				return d.Uint32(), nil
			}
		}
	}
	return 0, errors.New("nf_tables does not tell its generation")
}

// intact reports whether the chains have as many rules as they were given.
func (t *tables) intact(ctx context.Context, programs []program) (bool, error) {
	for i := range programs {
		p := &programs[i]
		for _, c := range p.chains() {
			rules, err := t.dump(ctx, p.family, unix.NFT_MSG_GETRULE,
				netlink.Attribute{Type: unix.NFTA_RULE_TABLE, Data: terminated(t.name)},
				netlink.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: terminated(c.name)})
			if isNotListed(err) || err == nil && len(rules) != len(c.rules) {
				return false, nil
			}
			if err != nil {
				return false, fmt.Errorf("list the rules of %s of table %s: %w", c.name, t.name, err)
			}
		}
	}
	return true, nil
}
