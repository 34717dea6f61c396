package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Watch tells drifted each time when somebody else changes the Backend's tables, and
// when that cannot be ruled out because the kernel had more to tell than there was
// room for, or could not be listened to for a while, of which Config.Deaf hears. It
// returns nil when ctx ends, and an error when it cannot listen in the first place. It
// runs beside the other methods; drifted may be (*proxier.Proxier).RequestReset.
//
// A first change is told at once, further ones each second at most.
func (b *Backend) Watch(ctx context.Context, drifted func()) error {
	l, err := b.watchers.listen(b.cfg.NetNS)
	if err != nil {
		return fmt.Errorf("nftables: watch table %s: %w", b.cfg.Table, privileged(err))
	}
	for {
		err := b.watch(ctx, l, drifted)
		l.close()
		if ctx.Err() != nil {
			return nil
		}
		b.cfg.Log.Warn("changes of nf_tables were missed", "table", b.cfg.Table, "err", err)
		if l = b.listenAgain(ctx, err); l == nil {
			return nil
		}
		drifted() // once it listens: nothing is missed in between
	}
}

// listenAgain waits, and tries until it can listen to the kernel. It returns nil when ctx
// ends first. Lost news, why being ENOBUFS, are no deafness.
func (b *Backend) listenAgain(ctx context.Context, why error) *watcher {
	deaf := false
	for retry := driftPause; ; retry = min(2*retry, maxListenRetry) {
		if !errors.Is(why, unix.ENOBUFS) {
			deaf = true
			b.cfg.Deaf(why)
		}
		if !pause(ctx, retry) {
			return nil
		}
		l, err := b.watchers.listen(b.cfg.NetNS)
		if err == nil {
			if deaf {
				b.cfg.Deaf(nil)
			}
			return l
		}
		b.cfg.Log.Warn("changes of nf_tables cannot be noticed", "table", b.cfg.Table, "err", err, "retry", min(2*retry, maxListenRetry))
		why = err
	}
}

// driftPause is the least time between two reports: who fights for the table must
// not take up a CPU. watchBuffer is the room for what the kernel tells.
const (
	driftPause     = time.Second
	maxListenRetry = 30 * time.Second
	watchBuffer    = 4 << 20
)

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// watch listens until something goes wrong.
func (b *Backend) watch(ctx context.Context, l *watcher, drifted func()) error {
	stop := context.AfterFunc(ctx, func() { _ = l.conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	for {
		messages, err := l.conn.Receive()
		if err != nil {
			return errors.Join(l.broken(), err)
		}
		foreign := slices.ContainsFunc(messages, func(m netlink.Message) bool {
			return b.concerns(m) && !b.watchers.own(m.Header.PID)
		})
		if !foreign {
			continue
		}
		b.cfg.Log.Warn("somebody else has changed the table", "table", b.cfg.Table)
		drifted()
		if !pause(ctx, driftPause) {
			return ctx.Err()
		}
	}
}

// concerns reports whether a message is about the Backend's tables. In all of them
// but that of a new generation of rules, the first attribute is the table.
func (b *Backend) concerns(m netlink.Message) bool {
	const typeMask = 0xff
	kind := int(m.Header.Type) & typeMask
	if int(m.Header.Type)>>8 != unix.NFNL_SUBSYS_NFTABLES || kind == unix.NFT_MSG_NEWGEN || len(m.Data) < sizeofNfgenmsg {
		return false
	}
	ours := slices.ContainsFunc(b.cfg.Families, func(f proxier.Family) bool { return byte(b.kernelFamily(f)) == m.Data[0] })
	if !ours {
		return false
	}
	attrs, err := netlink.NewAttributeDecoder(m.Data[sizeofNfgenmsg:])
	if err != nil {
		return true // what cannot be read might be
	}
	for attrs.Next() {
		if attrs.Type() == unix.NFTA_TABLE_NAME {
			return attrs.String() == b.cfg.Table
		}
	}
	return attrs.Err() != nil
}

// watchers know which changes are the Backend's own. While a Reset loads a new
// generation nobody listens: the kernel would have to tell of each element.
type watchers struct {
	// mu guards what follows.
	mu sync.Mutex
	// ports are the netlink ports of the last connections of the Backend: news of
	// what a closed one has done may still be under way.
	ports  []uint32
	active []*watcher
	deaf   bool
}

// watcher is one connection that listens.
type watcher struct {
	conn *netlink.Conn
	all  *watchers
	// err is why it hears nothing any more. It is guarded by the mutex of all.
	err error
}

// keptPorts is how many connections are remembered. The numbers are the kernel's,
// and it does not give one to two sockets at a time.
const keptPorts = 16

func (w *watchers) add(port uint32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ports = append(w.ports, port)
	if len(w.ports) > keptPorts {
		w.ports = slices.Delete(w.ports, 0, 1)
	}
}

func (w *watchers) own(port uint32) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.ports, port)
}

func (w *watchers) listen(netns string) (*watcher, error) {
	c, err := dialNetlink(netns)
	if err != nil {
		return nil, err
	}
	l := &watcher{conn: c, all: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	err = c.SetReadBuffer(watchBuffer)
	if err == nil && !w.deaf {
		err = l.subscribeLocked()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	w.active = append(w.active, l)
	return l, nil
}

func (l *watcher) close() {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	l.all.active = slices.DeleteFunc(l.all.active, func(o *watcher) bool { return o == l })
	_ = l.conn.Close()
}

// broken returns why l hears nothing any more, nil if it does.
func (l *watcher) broken() error {
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	return l.err
}

func (l *watcher) subscribeLocked() error {
	if err := l.conn.JoinGroup(unix.NFNLGRP_NFTABLES); err != nil {
		return fmt.Errorf("subscribe to changes of nf_tables: %w", err)
	}
	return nil
}

// hear turns listening on or off. A watcher that does not obey is broken: Watch wakes up
// and takes another.
func (w *watchers) hear(on bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.deaf == !on {
		return
	}
	w.deaf = !on
	for _, l := range w.active {
		var err error
		if on {
			err = l.subscribeLocked()
		} else if err = l.conn.LeaveGroup(unix.NFNLGRP_NFTABLES); err != nil {
			err = fmt.Errorf("unsubscribe from changes of nf_tables: %w", err)
		}
		if err != nil {
			l.failLocked(err)
		}
	}
}

// failLocked ends a watcher.
func (l *watcher) failLocked(err error) {
	l.err = err
	_ = l.conn.SetDeadline(time.Unix(1, 0))
}
