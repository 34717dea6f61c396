package cni

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/cni/cnitest"
)

// three is a network of three stubs in a version of the specification.
func three(version string) string {
	return `{"cniVersion": "` + version + `", "name": "pods", "plugins": [{"type": "stub-a"}, {"type": "stub-b"}, {"type": "stub-c"}]}`
}

func mustParse(tb testing.TB, conf string) *Network {
	tb.Helper()
	n, err := Parse([]byte(conf))
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// setup returns stubs and an invoker for them.
func setup(tb testing.TB, names ...string) (*cnitest.Plugins, *Invoker) {
	tb.Helper()
	p := cnitest.New(tb, names...)
	return p, mustNew(tb, Config{BinDirs: []string{p.Dir()}, StateDir: filepath.Join(tb.TempDir(), "state")})
}

func mustNew(tb testing.TB, cfg Config) *Invoker {
	tb.Helper()
	v, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// calls lists the runs of the stubs, and forgets them.
func calls(p *cnitest.Plugins) []string {
	var all []string
	for _, c := range p.Calls() {
		all = append(all, c.String())
	}
	p.Forget()
	return all
}

func wantCalls(tb testing.TB, p *cnitest.Plugins, want ...string) {
	tb.Helper()
	if diff := cmp.Diff(want, calls(p)); diff != "" {
		tb.Errorf("calls (-want +got):\n%s", diff)
	}
}

func wantClean(tb testing.TB, v *Invoker, p *cnitest.Plugins) {
	tb.Helper()
	if held := p.Held(); len(held) > 0 {
		tb.Errorf("the plugins still hold %v", held)
	}
	if left, err := v.Attachments(); err != nil || len(left) > 0 {
		tb.Errorf("records: %v, %v; want none", left, err)
	}
}

func TestAddAndDelRunTheChain(t *testing.T) {
	p, v := setup(t, "stub-a", "stub-b", "stub-c")
	n, a := mustParse(t, three("1.0.0")), Attachment{ContainerID: "c1", IfName: "eth0"}
	result, err := v.Add(t.Context(), n, a)
	if err != nil {
		t.Fatal(err)
	}
	want := []netip.Addr{netip.MustParseAddr("10.88.0.2"), netip.MustParseAddr("fd00:88::2")}
	if diff := cmp.Diff(want, result.Addrs(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	wantCalls(t, p, "stub-a ADD c1/eth0", "stub-b ADD c1/eth0", "stub-c ADD c1/eth0")
	if _, err := v.Add(t.Context(), n, a); !errors.Is(err, ErrAttached) {
		t.Errorf("second ADD: %v, want ErrAttached", err)
	}
	wantCalls(t, p)
	if err := v.Check(t.Context(), a.Key()); err != nil {
		t.Errorf("CHECK: %v", err)
	}
	wantCalls(t, p, "stub-a CHECK c1/eth0", "stub-b CHECK c1/eth0", "stub-c CHECK c1/eth0")
	stored, err := v.Result(a.Key())
	if err != nil || string(stored.Raw) != string(result.Raw) {
		t.Errorf("stored result = %v, %v; want that of ADD", stored, err)
	}
	for range 2 { // a second DEL does no harm
		if err := v.Del(t.Context(), n, a); err != nil {
			t.Errorf("DEL: %v", err)
		}
		wantCalls(t, p, "stub-c DEL c1/eth0", "stub-b DEL c1/eth0", "stub-a DEL c1/eth0")
		wantClean(t, v, p)
	}
	if err := v.Check(t.Context(), a.Key()); !errors.Is(err, ErrNotAttached) {
		t.Errorf("CHECK after DEL: %v, want ErrNotAttached", err)
	}
	if _, err := v.Result(a.Key()); !errors.Is(err, ErrNotAttached) {
		t.Errorf("result after DEL: %v, want ErrNotAttached", err)
	}
}

func TestFailedAddIsUndone(t *testing.T) {
	t.Run("plugin fails", func(t *testing.T) {
		p, v := setup(t, "stub-a", "stub-b", "stub-c")
		p.On("stub-b", "ADD", cnitest.Fail(11, "no room"))
		for i := range 5 {
			id := fmt.Sprintf("c%d", i)
			_, err := v.Add(t.Context(), mustParse(t, three("1.0.0")), Attachment{ContainerID: id, IfName: "eth0"})
			if err == nil || !errors.Is(err, ErrTryAgain) || !strings.Contains(err.Error(), "stub-b") {
				t.Errorf("error is %v, want an ErrTryAgain that names stub-b", err)
			}
			at := " " + id + "/eth0"
			wantCalls(t, p, "stub-a ADD"+at, "stub-b ADD"+at, "stub-b DEL"+at, "stub-a DEL"+at)
			wantClean(t, v, p)
		}
	})
	t.Run("program missing, then installed", func(t *testing.T) {
		p, v := setup(t, "stub-a", "stub-c")
		n := mustParse(t, three("1.0.0"))
		for i := range 5 {
			id := fmt.Sprintf("c%d", i)
			_, err := v.Add(t.Context(), n, Attachment{ContainerID: id, IfName: "eth0"})
			if !errors.Is(err, ErrPluginMissing) {
				t.Fatalf("error is %v, want ErrPluginMissing", err)
			}
			for _, part := range []string{"stub-b", "not found", p.Dir()} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			wantCalls(t, p, "stub-a ADD "+id+"/eth0", "stub-a DEL "+id+"/eth0")
			wantClean(t, v, p)
		}
		p.Install("stub-b")
		if _, err := v.Add(t.Context(), n, Attachment{ContainerID: "c5", IfName: "eth0"}); err != nil {
			t.Error(err)
		}
		want := []string{"stub-a c5/eth0", "stub-b c5/eth0", "stub-c c5/eth0"}
		if diff := cmp.Diff(want, p.Held()); diff != "" {
			t.Errorf("held (-want +got):\n%s", diff)
		}
	})
}

func TestBadPluginsAreNamedAndUndone(t *testing.T) {
	ok := cnitest.DefaultResult
	tests := []struct {
		name string
		b    cnitest.Behaviour
		is   error
		want string
	}{
		{"hangs", cnitest.Hang(), context.DeadlineExceeded, "no answer within 300ms"},
		{"prints nothing", cnitest.Print(""), ErrBadOutput, "unexpected end of JSON"},
		{"prints no JSON", cnitest.Print("panic: oops"), ErrBadOutput, "invalid character"},
		{"prints half a result", cnitest.Print(ok[:len(ok)/2]), ErrBadOutput, "unexpected end of JSON"},
		{"prints a list", cnitest.Print("[]"), ErrBadOutput, "cannot unmarshal"},
		{"prints a result of a version to come", cnitest.Print(`{"cniVersion":"9.0.0"}`), ErrBadOutput, "9.0.0"},
		{"prints an address that is none", cnitest.Print(`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.300/8"}]}`), ErrBadOutput, "10.0.0.300"},
		{"prints an address without a value", cnitest.Print(`{"cniVersion":"1.0.0","ips":[{}]}`), ErrBadOutput, "CIDR"},
		{"prints null for an address", cnitest.Print(`{"cniVersion":"1.0.0","ips":[null]}`), ErrBadOutput, "ips[0] is null"},
		{"prints null for an interface of an old version", cnitest.Print(`{"cniVersion":"0.4.0","interfaces":[null]}`), ErrBadOutput, "interfaces[0] is null"},
		{"prints an address on no interface", cnitest.Print(`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.3/8","interface":7}]}`), ErrBadOutput, "interface 7 of 0"},
		{"fails without a word", cnitest.Behaviour{Exit: 7}, nil, "exit status 7"},
		{"fails with garbage", cnitest.Behaviour{Stdout: "Segmentation fault", Exit: 139}, ErrBadOutput, "Segmentation fault"},
		{"fails on stderr", cnitest.Behaviour{Stderr: "iptables: locked\n", Exit: 4}, nil, "stderr: iptables: locked"},
		{"is not available", cnitest.Fail(50, "daemon down"), ErrUnavailable, "daemon down; the stub was told to (code 50, plugin not available)"},
		{"has limited connectivity", cnitest.Fail(51, "agent down"), ErrLimited, "agent down"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := cnitest.New(t, "stub-a", "stub-b", "stub-c")
			v := mustNew(t, Config{
				BinDirs: []string{p.Dir()}, StateDir: t.TempDir(),
				Timeouts: map[string]time.Duration{"stub-b": 300 * time.Millisecond},
			})
			if test.name != "hangs" { // the machine may be slow
				v.cfg.Timeouts = nil
			}
			p.On("stub-b", "ADD", test.b)
			_, err := v.Add(t.Context(), mustParse(t, three("1.0.0")), Attachment{ContainerID: "c1", IfName: "eth0"})
			own, ok := errors.AsType[*PluginError](err)
			if !ok || own.Plugin != "stub-b" || own.Command != "ADD" || own.Network != "pods" || own.Path != filepath.Join(p.Dir(), "stub-b") {
				t.Fatalf("error is %#v (%v), want a PluginError of stub-b", own, err)
			}
			if !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("error is %q, want %q and %v in it", err, test.want, test.is)
			}
			wantCalls(t, p, "stub-a ADD c1/eth0", "stub-b ADD c1/eth0", "stub-b DEL c1/eth0", "stub-a DEL c1/eth0")
			wantClean(t, v, p)
		})
	}
}

func TestHugeOutputEndsThePlugin(t *testing.T) {
	p, v := setup(t, "stub-a")
	flood := filepath.Join(p.Dir(), "flood")
	if err := os.WriteFile(flood, []byte("#!/bin/sh\nexec cat /dev/zero\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	n := mustParse(t, `{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"stub-a"},{"type":"flood"}]}`)
	v.cfg.Timeouts = map[string]time.Duration{"flood": time.Minute}
	_, err := v.Add(t.Context(), n, Attachment{ContainerID: "c1", IfName: "eth0"})
	if !errors.Is(err, ErrBadOutput) || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error is %v, want ErrBadOutput", err)
	}
	if held := p.Held(); len(held) > 0 {
		t.Errorf("still held: %v", held)
	}
	// Its DEL floods too: the record has to stay.
	left, err := v.Attachments()
	if err != nil || len(left) != 1 || left[0].State != Unfinished {
		t.Errorf("records: %v, %v; want one unfinished", left, err)
	}
}

func TestCancelledAddIsUndone(t *testing.T) {
	p, v := setup(t, "stub-a", "stub-b", "stub-c")
	p.On("stub-b", "ADD", cnitest.Hang())
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := v.Add(ctx, mustParse(t, three("1.0.0")), Attachment{ContainerID: "c1", IfName: "eth0"})
		done <- err
	}()
	for len(p.Calls()) < 2 {
		pause(t.Context(), time.Millisecond)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want context.Canceled", err)
	}
	wantCalls(t, p, "stub-a ADD c1/eth0", "stub-b ADD c1/eth0", "stub-b DEL c1/eth0", "stub-a DEL c1/eth0")
	wantClean(t, v, p)
}
