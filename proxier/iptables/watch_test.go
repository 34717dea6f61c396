package iptables

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A Watch that sees somebody change something is to tell within its interval.
func TestDriftIsNoticed(t *testing.T) {
	line := func(table, line string) func(*commands) {
		return func(c *commands) {
			if wrong := c.of("iptables-nft", table).do(false, line); wrong != "" {
				panic(wrong)
			}
		}
	}
	tests := []struct {
		name   string
		change func(*commands)
		want   int
	}{
		{"nothing", func(*commands) {}, 0},
		{"a foreign rule", line("nat", "-I PREROUTING -j RETURN"), 0},
		{"a jump is deleted", line("nat", `-D OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES`), 1},
		{"a chain is flushed", line("nat", ":KUBE-SERVICES - [0:0]"), 1},
		{"the filter table is flushed", func(c *commands) { delete(c.tables["iptables-nft"], "filter") }, 1},
		{"the mangle table is flushed", func(c *commands) { delete(c.tables["iptables-nft"], "mangle") }, 1},
		{"all is flushed", func(c *commands) { delete(c.tables, "iptables-nft") }, 1},
		{"a canary goes", line("nat", "-X KUBE-PROXY-CANARY"), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCommands()
				be := newFake(t, c, ipv4(Config{}))
				a := servicePort("a", "10.96.0.1", "10.244.0.1:80")
				mustReset(t, be, a)
				before := strings.Join(c.rulesOf("iptables-nft"), "\n")
				var told atomic.Int32
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() {
					done <- be.Watch(ctx, func() {
						told.Add(1)
						mustReset(t, be, a)
					})
				}()
				time.Sleep(time.Second) //nolint:forbidigo // fake time
				c.mu.Lock()
				tt.change(c)
				c.mu.Unlock()
				time.Sleep(3 * DefaultCheckInterval) //nolint:forbidigo // fake time
				synctest.Wait()
				if int(told.Load()) != tt.want {
					t.Errorf("it told %d times, want %d", told.Load(), tt.want)
				}
				after := strings.Join(c.rulesOf("iptables-nft"), "\n")
				if tt.want > 0 && after != before {
					t.Errorf("rules after the repair:\n%s\nwant:\n%s", after, before)
				}
				cancel()
				if err := <-done; err != nil {
					t.Errorf("Watch = %v", err)
				}
			})
		})
	}
}

// What Watch does not look at is compared in full, once in a while.
func TestAllRulesAreListedEveryHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommands()
		be := newFake(t, c, ipv4(Config{}))
		a := servicePort("a", "10.96.0.1", "10.244.0.1:80")
		mustReset(t, be, a)
		var told atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- be.Watch(ctx, func() { told.Add(1) }) }()
		time.Sleep(59 * time.Minute) //nolint:forbidigo // fake time
		synctest.Wait()
		if told.Load() != 0 {
			t.Errorf("it told %d times in the first hour, want 0", told.Load())
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // fake time
		synctest.Wait()
		if told.Load() != 1 {
			t.Errorf("it told %d times after an hour, want 1", told.Load())
		}
		cancel()
		<-done
	})
}

// A ServicePort that was left out is tried again.
func TestRefusedServicesAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommands()
		be := newFake(t, c, ipv4(Config{Problem: func(Problem) {}}))
		c.before = func(cmd Command) (Result, bool) { return refuse(cmd, "10.244.0.1:80") }
		bad := servicePort("bad", "10.96.0.1", "10.244.0.1:80")
		mustReset(t, be, bad)
		c.mu.Lock()
		c.before = nil
		c.mu.Unlock()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- be.Watch(ctx, func() { mustReset(t, be, bad) }) }()
		time.Sleep((refusedIntervals + 2) * DefaultCheckInterval) //nolint:forbidigo // fake time
		synctest.Wait()
		if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); !strings.Contains(got, "10.244.0.1:80") {
			t.Errorf("it is not programmed:\n%s", got)
		}
		cancel()
		<-done
	})
}

// Who holds the lock does not make rules look like missing.
func TestALockedTableIsNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommands()
		be := newFake(t, c, ipv4(Config{}))
		mustReset(t, be)
		c.mu.Lock()
		c.before = func(Command) (Result, bool) {
			return Result{Status: 4, Stderr: []byte("Another app is currently holding the xtables lock. Stopped waiting after 5s.\n")}, true
		}
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := be.Watch(ctx, func() { t.Error("it told") }); err != nil {
			t.Error(err)
		}
	})
}

// Addresses at which no node port answers come and go with pods.
func TestAddressesThatNoRuleNamesAreNoDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommands()
		cfg := Config{Variant: NFT, NodePortAddresses: prefixes("192.0.2.0/24", "2001:db8::/64"), Exec: c}
		host := &node{on: map[string]bool{}, addresses: addrs("192.0.2.1", "2001:db8::1")}
		be, err := newWith(cfg, host)
		if err != nil {
			t.Fatal(err)
		}
		mustReset(t, be)
		ctx, cancel := context.WithTimeout(t.Context(), 5*DefaultCheckInterval)
		defer cancel()
		host.move(addrs("10.244.0.1", "192.0.2.1", "2001:db8::1", "fe80::1"))
		if err := be.Watch(ctx, func() { t.Error("it told") }); err != nil {
			t.Error(err)
		}
	})
}

// Node ports that are limited to some of the node's addresses follow these.
func TestOtherAddressesOfTheNodeAreDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCommands()
		cfg := ipv4(Config{NodePortAddresses: prefixes("192.0.2.0/24")})
		cfg.Exec = c
		host := &node{on: map[string]bool{}, addresses: addrs("192.0.2.1")}
		be, err := newWith(cfg, host)
		if err != nil {
			t.Fatal(err)
		}
		mustReset(t, be)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- be.Watch(ctx, func() { mustReset(t, be) }) }()
		host.move(addrs("192.0.2.2"))
		time.Sleep(2 * DefaultCheckInterval) //nolint:forbidigo // fake time
		synctest.Wait()
		if got := strings.Join(c.rulesOf("iptables-nft"), "\n"); !strings.Contains(got, "-d 192.0.2.2/32") || strings.Contains(got, "-d 192.0.2.1/32") {
			t.Errorf("rules after the node has moved:\n%s", got)
		}
		cancel()
		<-done
	})
}
