//go:build linux

package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// machine is a node with a pod that answers at 10.244.0.5:8080, behind Service web at
// 10.96.0.10:80.
type machine struct {
	node, pod *netnstest.NS
	variant   Variant
	exec      hostExec
	web       *proxier.ServicePort
}

func newMachine(t *testing.T, v Variant) *machine {
	t.Helper()
	m := &machine{node: netnstest.New(t), pod: netnstest.New(t), variant: v, web: servicePort("web", "10.96.0.10", "10.244.0.5:8080")}
	netnstest.Veth(t,
		netnstest.End{NS: m.node, Name: "pod0", Addrs: []string{"10.244.0.1/24"}},
		netnstest.End{NS: m.pod, Name: "eth0", Addrs: []string{"10.244.0.5/24"}})
	m.node.IP(t, "route", "add", "default", "via", "10.244.0.5")
	m.exec = commandsIn(t, m.node.Path())
	l, err := m.pod.Listen("tcp", "10.244.0.5:8080")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, "hello")
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return m
}

func (m *machine) backend(t *testing.T, cfg Config) *Backend {
	t.Helper()
	if cfg.Exec == nil {
		cfg.Exec = m.exec
	}
	cfg.Variant, cfg.Families = m.variant, []proxier.Family{proxier.IPv4}
	return backendIn(t, m.node.Path(), cfg)
}

// run runs a command of iptables on the node, such as "iptables -t nat -F".
func (m *machine) run(t *testing.T, command string) string {
	t.Helper()
	words := strings.Fields(command)
	name, kind, _ := strings.Cut(words[0], "-")
	name += "-" + string(m.variant)
	if kind != "" {
		name += "-" + kind
	}
	r, err := m.exec.Run(t.Context(), Command{Name: name, Args: words[1:]})
	if err != nil || r.Status != 0 {
		t.Fatalf("%s: status %d, %v: %s", command, r.Status, err, r.Stderr)
	}
	return string(r.Stdout)
}

// served waits until the Service answers.
func (m *machine) served(t *testing.T) {
	t.Helper()
	m.awaitDial(t, "10.96.0.10:80")
}

// awaitDial waits until a connection from the node works.
func (m *machine) awaitDial(t *testing.T, addr string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		c, err := m.node.Dial("tcp", addr, 500*time.Millisecond)
		if err == nil {
			_ = c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing answers at %s: %v\n%s", addr, err, m.run(t, "iptables-save"))
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // kernel time
	}
}

// unchanged wants that a Reset would change nothing.
func (m *machine) unchanged(t *testing.T, b *Backend, ports ...*proxier.ServicePort) {
	t.Helper()
	plan, err := b.Plan(t.Context(), &proxier.State{Ports: ports})
	if err != nil || len(plan) > 0 {
		t.Errorf("a Reset would change %v\n%s", err, strings.Join(plan, "\n"))
	}
}

// journal is a log that can be searched.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) has(s string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Contains(j.text.String(), s)
}

// Somebody flushes one table: it is told, and repaired, and what others have stays.
func TestKernelFlushedTablesAreRepaired(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		m := newMachine(t, v)
		log := &journal{}
		b := m.backend(t, Config{CheckInterval: 50 * time.Millisecond, Log: slog.New(slog.NewTextHandler(log, nil))})
		mustReset(t, b, m.web)
		m.served(t)
		ctx, cancel := context.WithCancel(t.Context())
		drifted, done := make(chan struct{}, 1), make(chan error, 1)
		go func() {
			done <- b.Watch(ctx, func() {
				select {
				case drifted <- struct{}{}:
				default:
				}
			})
		}()
		for _, commands := range [][]string{
			{"iptables -t nat -F"},
			{"iptables -t filter -F", "iptables -t filter -X"},
			{"iptables -t mangle -X"},
			{"iptables -t nat -D OUTPUT 1"},
		} {
			for _, command := range commands {
				m.run(t, command)
			}
			m.run(t, "iptables -t nat -A POSTROUTING -s 192.0.2.77 -j RETURN")
			select {
			case <-drifted:
			case <-time.After(time.Minute):
				t.Fatalf("%v is not noticed", commands)
			}
			mustReset(t, b, m.web)
			m.served(t)
			m.unchanged(t, b, m.web)
			if !strings.Contains(m.run(t, "iptables-save"), "-A POSTROUTING -s 192.0.2.77/32 -j RETURN") {
				t.Error("the rule of somebody else is gone")
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !log.has("rules were changed by somebody else") {
			t.Error("nothing was logged")
		}
	})
}

// Another program inserts and deletes rules of its own all the time.
func TestKernelRulesOfOthersStay(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		m := newMachine(t, v)
		b := m.backend(t, Config{})
		mustReset(t, b, m.web)
		m.run(t, "iptables -t nat -N OTHER")
		m.run(t, "iptables -t nat -A OUTPUT -j OTHER")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- m.others(ctx) }()
		ports := map[int]*proxier.ServicePort{0: m.web}
		for n := range 30 {
			p := servicePort(fmt.Sprintf("s-%d", n%5), fmt.Sprintf("10.96.1.%d", n%5), fmt.Sprintf("10.244.0.%d:80", 10+n))
			ports[1+n%5] = p
			err := b.Apply(t.Context(), update(p))
			for tries := 0; err != nil && tries < 20; tries++ { // as a Proxier does
				err = b.Reset(t.Context(), stateOf(ports))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the other program: %v", err)
		}
		m.unchanged(t, b, stateOf(ports).Ports...)
		m.served(t)
		saved := m.run(t, "iptables-save")
		for _, want := range []string{"-A OUTPUT -j OTHER\n", "-A OTHER -s 192.0.2.1/32 -j RETURN\n"} {
			if !strings.Contains(saved, want) {
				t.Errorf("%q of the other program is gone", want)
			}
		}
	})
}

// others works in a chain until ctx ends, and leaves one rule.
func (m *machine) others(ctx context.Context) error {
	command := func(args string) error {
		c := Command{Name: "iptables-" + string(m.variant), Args: strings.Fields("-w 60 -t nat " + args)}
		// What was begun is ended.
		r, err := m.exec.Run(context.WithoutCancel(ctx), c)
		if err == nil && r.Status != 0 {
			err = commandError(c, r)
		}
		return err
	}
	for ctx.Err() == nil {
		if err := errors.Join(command("-A OTHER -s 192.0.2.2 -j RETURN"), command("-D OTHER -s 192.0.2.2 -j RETURN")); err != nil {
			return err
		}
	}
	return command("-A OTHER -s 192.0.2.1 -j RETURN")
}

// A program holds the lock for longer than one command waits for it. Only
// iptables-legacy has a lock.
func TestKernelLockHeldForLong(t *testing.T) {
	t.Parallel()
	netnstest.NeedCommand(t, "iptables-legacy")
	m := newMachine(t, Legacy)
	log := &journal{}
	b := m.backend(t, Config{Log: slog.New(slog.NewTextHandler(log, nil)), LockWait: 5 * time.Minute})
	mustReset(t, b, m.web)
	path, _ := strings.CutPrefix(m.exec.env[0], "XTABLES_LOCKFILE=")
	lock, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	freed := make(chan struct{})
	free := time.AfterFunc(10*time.Second, func() {
		defer close(freed)
		_ = unix.Flock(int(lock.Fd()), unix.LOCK_UN)
	})
	defer func() {
		if !free.Stop() {
			<-freed
		}
	}()
	second := servicePort("second", "10.96.0.11", "10.244.0.5:8080")
	mustApply(t, b, update(second))
	if !log.has("another program holds the lock of iptables") {
		t.Error("nothing was logged")
	}
	m.unchanged(t, b, second, m.web)
}

// The program is killed at some point of its work.
func TestKernelRestoreIsKilled(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		m := newMachine(t, v)
		b := m.backend(t, Config{})
		mustReset(t, b, m.web)
		many := manyPorts(200, 2)
		for n := range 12 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n)*2*time.Millisecond)
			d := update(many...)
			if n%2 == 1 {
				d = remove(many...)
			}
			err := b.Apply(ctx, d)
			cancel()
			if err == nil {
				continue
			}
			state := []*proxier.ServicePort{m.web}
			if n%2 == 0 {
				state = append(many, m.web)
			}
			mustReset(t, b, state...)
			m.unchanged(t, b, state...)
			m.served(t)
		}
	})
}

// Without endpoints nothing of a Service is left in table nat.
func TestKernelScaleToZero(t *testing.T) {
	onKernel(t, func(t *testing.T, v Variant) {
		t.Helper()
		m := newMachine(t, v)
		b := m.backend(t, Config{})
		mustReset(t, b, m.web)
		if saved := m.run(t, "iptables-save -t nat"); !strings.Contains(saved, ":KUBE-SEP-") {
			t.Fatalf("no chain of an endpoint:\n%s", saved)
		}
		mustApply(t, b, update(servicePort("web", "10.96.0.10")))
		saved := m.run(t, "iptables-save -t nat")
		for _, left := range []string{"KUBE-SEP-", "KUBE-SVC-", "10.96.0.10"} {
			if strings.Contains(saved, left) {
				t.Errorf("%s is left:\n%s", left, saved)
			}
		}
		_, err := m.node.Dial("tcp", "10.96.0.10:80", 20*time.Second)
		if !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("a connection: %v, want refused", err)
		}
		if err := b.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if saved := m.run(t, "iptables-save"); strings.Contains(strings.ReplaceAll(saved, "KUBE-FIREWALL", ""), "KUBE-") {
			t.Errorf("left after Cleanup:\n%s", saved)
		}
	})
}
