package nftables

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	nft "github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// A transaction is one sendmsg, and each of its messages is acknowledged: both
// buffers must hold a full one. The force variants that netlink tries first
// need CAP_NET_ADMIN, as everything else here does.
const (
	writeBuffer = 8 << 20
	readBuffer  = 4 << 20
)

// conn is a lasting netlink connection. It must be closed after the first
// error: answers to the failed transaction may still be waiting in it.
type conn struct {
	nft *nft.Conn
	// nl is the socket inside nft.
	nl *netlink.Conn
}

// dial connects to nf_tables of the network namespace at path; an empty path is
// that of the process.
func dial(path string) (*conn, error) {
	c := &conn{}
	opts := []nft.ConnOption{nft.AsLasting(), nft.WithSockOptions(func(nl *netlink.Conn) error {
		c.nl = nl
		return errors.Join(nl.SetWriteBuffer(writeBuffer), nl.SetReadBuffer(readBuffer))
	})}
	if path != "" {
		ns, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open network namespace: %w", err)
		}
		defer ns.Close()
		opts = append(opts, nft.WithNetNSFd(int(ns.Fd())))
	}
	var err error
	if c.nft, err = nft.New(opts...); err != nil {
		if c.nl != nil {
			_ = c.nl.Close()
		}
		return nil, fmt.Errorf("connect to nf_tables over netlink: %w", err)
	}
	return c, nil
}

// dialNetlink opens a plain connection to nf_tables of the network namespace at path.
func dialNetlink(path string) (*netlink.Conn, error) {
	cfg := &netlink.Config{}
	if path != "" {
		ns, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open network namespace: %w", err)
		}
		defer ns.Close()
		cfg.NetNS = int(ns.Fd())
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to nf_tables over netlink: %w", err)
	}
	return c, nil
}

func (c *conn) close() error { return c.nft.CloseLasting() }

// flush commits what was buffered as one transaction. When ctx ends first, the
// outcome is unknown.
func (c *conn) flush(ctx context.Context) error {
	return c.within(ctx, c.nft.Flush)
}

// within runs f, which uses the socket, until it ends or ctx does.
func (c *conn) within(ctx context.Context, f func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.nl.SetDeadline(time.Unix(1, 0)) })
	err := f()
	if !stop() {
		return errors.Join(ctx.Err(), err)
	}
	return err
}

// sizeofNfgenmsg is the length of struct nfgenmsg of linux/netfilter/nfnetlink.h.
const sizeofNfgenmsg = 4

// dump describes a request for the objects of one kind.
type dump struct {
	request  uint16
	nameAttr uint16
	// tableAttr carries the table, in the request and in the answers.
	tableAttr uint16
}

func dumpSets() dump {
	return dump{request: unix.NFT_MSG_GETSET, nameAttr: unix.NFTA_SET_NAME, tableAttr: unix.NFTA_SET_TABLE}
}

func dumpChains() dump {
	return dump{request: unix.NFT_MSG_GETCHAIN, nameAttr: unix.NFTA_CHAIN_NAME, tableAttr: unix.NFTA_CHAIN_TABLE}
}

// names returns the names of the sets or chains of a table, and none if the
// table is not there, or its whole family. It reads the two attributes it needs and passes over what
// it does not know, so that a table that others have written to is no trouble.
func (c *conn) names(ctx context.Context, t *nft.Table, d dump) ([]string, error) {
	request, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: d.tableAttr, Data: append([]byte(t.Name), 0)},
	})
	if err != nil {
		return nil, err
	}
	// struct nfgenmsg: family, version, resource.
	request = append([]byte{byte(t.Family), unix.NFNETLINK_V0, 0, 0}, request...)
	for range dumpTries {
		var answers []netlink.Message
		err = c.within(ctx, func() error {
			var err error
			answers, err = c.nl.Execute(netlink.Message{
				Header: netlink.Header{
					Type:  netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | d.request),
					Flags: netlink.Request | netlink.Dump,
				},
				Data: request,
			})
			return err
		})
		if isNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		var names []string
		if names, err = namesOf(answers, t.Name, d); !errors.Is(err, errInterrupted) {
			return names, err
		}
	}
	return nil, err
}

// dumpTries is how often a dump is begun: who commits without a pause may
// interrupt each of them.
const dumpTries = 10

// errInterrupted says that a dump lacks names: others committed meanwhile.
var errInterrupted = errors.New("the rules of this host change all the time, so that they cannot be listed")

func namesOf(answers []netlink.Message, table string, d dump) ([]string, error) {
	var out []string
	for _, m := range answers {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return nil, errInterrupted
		}
		if len(m.Data) < sizeofNfgenmsg {
			return nil, fmt.Errorf("answer of %d bytes is too short", len(m.Data))
		}
		attrs, err := netlink.NewAttributeDecoder(m.Data[sizeofNfgenmsg:])
		if err != nil {
			return nil, err
		}
		attrs.ByteOrder = binary.BigEndian
		var name, of string
		for attrs.Next() {
			switch attrs.Type() {
			case d.nameAttr:
				name = attrs.String()
			case d.tableAttr:
				of = attrs.String()
			}
		}
		if err := attrs.Err(); err != nil {
			return nil, err
		}
		if of == table {
			out = append(out, name)
		}
	}
	return out, nil
}
