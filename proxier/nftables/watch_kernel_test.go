//go:build linux

package nftables

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// watched returns a Backend of ns in force, with one Service, and where it tells of
// drift.
func watched(t *testing.T, ns *netnstest.NS, cfg Config) (*Backend, chan struct{}) {
	t.Helper()
	cfg.Local = podNet()
	b := newBackend(t, ns, cfg)
	reset(t, b, service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080")))
	drifted := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Watch(ctx, func() { drifted <- struct{}{} }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Watch() = %v", err)
		}
	})
	for { // until it listens
		b.watchers.mu.Lock()
		n := len(b.watchers.active)
		b.watchers.mu.Unlock()
		if n > 0 {
			return b, drifted
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // a real socket opens
	}
}

func TestKernelForeignChangesAreTold(t *testing.T) {
	t.Parallel()
	netnstest.NeedCommand(t, "nft")
	for name, command := range map[string]string{
		"the table is deleted":   "delete table ip nodekit-proxy",
		"everything is flushed":  "flush ruleset",
		"an element is deleted":  "delete element ip nodekit-proxy g1/services { 10.96.0.10 . tcp . 80 }",
		"a rule is added":        "add rule ip nodekit-proxy nat-prerouting counter",
		"a chain is flushed":     "flush chain ip nodekit-proxy nat-prerouting",
		"a set is flushed":       "flush set ip nodekit-proxy g1/cluster-ips",
		"an endpoint is changed": "delete element ip nodekit-proxy g1/endpoints { 10.96.0.10 . tcp . 80 . 0x0 }",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := netnstest.New(t)
			b, drifted := watched(t, ns, Config{})
			if _, err := ns.Run("nft", command); err != nil {
				t.Fatal(err)
			}
			select {
			case <-drifted:
			case <-time.After(10 * time.Second):
				t.Fatal("nobody was told")
			}
			reset(t, b, service("web", proxier.TCP, "10.96.0.10:80", on("10.244.1.11:8080")))
			if got := strings.Join(dumpAll(t, b), "\n"); !strings.Contains(got, "services { 10.96.0.10 . tcp . 80 : goto cluster-lb-1 }") {
				t.Errorf("after the repair the kernel has\n%s", got)
			}
		})
	}
}

func TestKernelOwnChangesAndOtherTablesAreNotTold(t *testing.T) {
	t.Parallel()
	netnstest.NeedCommand(t, "nft")
	ns := netnstest.New(t)
	b, drifted := watched(t, ns, Config{})
	services := manyServices(2000, 2)
	reset(t, b, services...)
	for _, p := range services[:20] {
		update(t, b, grown(p))
		remove(t, b, p)
	}
	if err := b.hangUp(); err != nil { // the next change is on another connection
		t.Fatal(err)
	}
	update(t, b, services[0])
	reset(t, b, services...)
	for _, command := range []string{"add table ip other", "add chain ip other c", "add table ip6 nodekit-proxy-2", "add table inet nodekit-proxy"} {
		if _, err := ns.Run("nft", command); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) //nolint:forbidigo // for what should not come
	if len(drifted) > 0 {
		t.Errorf("told %d times of own changes", len(drifted))
	}
	if _, err := ns.Run("nft", "add chain ip nodekit-proxy x"); err != nil {
		t.Fatal(err)
	}
	<-drifted
	if len(drifted) > 0 {
		t.Errorf("told %d times more than of the foreign change", len(drifted))
	}
}

// Who cannot be heard is listened to again, and what may have been missed is told.
func TestKernelBrokenSubscriptionIsMended(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	deaf := make(chan error, 100)
	b, drifted := watched(t, ns, Config{Deaf: func(err error) { deaf <- err }})
	b.watchers.mu.Lock()
	broken := b.watchers.active[0]
	if err := broken.conn.LeaveGroup(unix.NFNLGRP_NFTABLES); err != nil {
		t.Error(err)
	}
	broken.failLocked(errors.New("no")) // as after a subscription that the kernel refused
	b.watchers.mu.Unlock()
	for _, want := range []string{"no", "<nil>"} {
		select {
		case err := <-deaf:
			if got := fmt.Sprint(err); !strings.Contains(got, want) {
				t.Errorf("told of %q, want %q", got, want)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("nobody was told of %q", want)
		}
	}
	<-drifted
	other := newBackend(t, ns, Config{})
	reset(t, other)
	select {
	case <-drifted:
	case <-time.After(30 * time.Second):
		t.Error("after the repair, nobody was told of a foreign change")
	}
}

func TestKernelRefusedSubscriptionBreaksTheWatcher(t *testing.T) {
	t.Parallel()
	var w watchers
	l, err := w.listen(netnstest.New(t).Path())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	w.hear(false)
	_ = l.conn.Close()
	w.hear(true)
	if err := l.broken(); err == nil {
		t.Error("a watcher that could not subscribe counts as one that hears")
	}
}
