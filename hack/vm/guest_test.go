package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The tests of this file run in a guest: go test -exec vm. They show that it has
// what it is there for.
func inGuest(t *testing.T) kind {
	t.Helper()
	engine := os.Getenv("NODEKIT_VM")
	if engine == "" {
		t.Skip("this is no guest")
	}
	return kind(engine)
}

func command(t *testing.T, name string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

func TestInGuestControlGroupsAreOfVersion2(t *testing.T) {
	engine := inGuest(t)
	want := map[kind][]string{
		uml:  {"cpu", "io", "memory", "pids"},
		qemu: {"cpuset", "cpu", "io", "memory", "hugetlb", "pids"},
	}
	group := filepath.Join("/sys/fs/cgroup", "child")
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(group)
	content, err := os.ReadFile(filepath.Join(group, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	have := strings.Fields(string(content))
	for _, controller := range want[engine] {
		if !slices.Contains(have, controller) {
			t.Errorf("controllers of a child = %q, want %s among them", have, controller)
		}
	}
}

func TestInGuestKernelHasWhatHostsLack(t *testing.T) {
	inGuest(t)
	for _, tt := range []struct {
		name    string
		command []string
	}{
		{"virtual server", []string{"ipvsadm", "-A", "-t", "127.0.0.5:80", "-s", "rr"}},
		{"destination of it", []string{"ipvsadm", "-a", "-t", "127.0.0.5:80", "-r", "127.0.0.1:8080", "-m"}},
		{"dummy device", []string{"ip", "link", "add", "kube-ipvs0", "type", "dummy"}},
		{"pair of devices", []string{"ip", "link", "add", "veth0", "type", "veth", "peer", "name", "veth1"}},
		{"bridge", []string{"ip", "link", "add", "br0", "type", "bridge"}},
		{"network namespace", []string{"unshare", "-n", "ip", "link", "set", "lo", "up"}},
		{"set of addresses", []string{"ipset", "create", "s", "hash:ip,port"}},
		{"rule for a set", []string{"iptables", "-A", "OUTPUT", "-m", "set", "--match-set", "s", "dst,dst", "-j", "ACCEPT"}},
		{"masquerading", []string{"iptables", "-t", "nat", "-A", "POSTROUTING", "-o", "dummy0", "-j", "MASQUERADE"}},
		{"IPv6 masquerading", []string{"ip6tables", "-t", "nat", "-A", "POSTROUTING", "-o", "dummy0", "-j", "MASQUERADE"}},
		{"connection tracking", []string{"conntrack", "-L"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := command(t, tt.command[0], tt.command[1:]...); err != nil {
				t.Error(err)
			}
		})
	}
	services, err := os.ReadFile("/proc/net/ip_vs")
	if err != nil || !strings.Contains(string(services), "7F000001:1F90") {
		t.Errorf("virtual servers: %v\n%s", err, services)
	}
}

// Debian builds user-mode Linux without nf_tables for ip, ip6 and inet.
func TestInGuestNFTablesAreThereWithQEMUOnly(t *testing.T) {
	engine := inGuest(t)
	for _, family := range []string{"ip", "ip6", "inet"} {
		_, err := command(t, "nft", "add", "table", family, "x")
		if got, want := err == nil, engine == qemu; got != want {
			t.Errorf("table of %s: %v", family, err)
		}
	}
}

func TestInGuestOverlayFileSystem(t *testing.T) {
	inGuest(t)
	dir := t.TempDir()
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	merged := filepath.Join(dir, "merged")
	options := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	if err := unix.Mount("overlay", merged, "overlay", 0, options); err != nil {
		t.Fatal(err)
	}
	if err := unix.Unmount(merged, 0); err != nil {
		t.Error(err)
	}
}

// A connection by SCTP, made with sockets as net/http would by TCP.
func TestInGuestSCTP(t *testing.T) {
	inGuest(t)
	listener := sctpSocket(t)
	if err := unix.Bind(listener, &unix.SockaddrInet4{Port: 9999, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(listener, 1); err != nil {
		t.Fatal(err)
	}
	client := sctpSocket(t)
	if err := unix.Connect(client, &unix.SockaddrInet4{Port: 9999, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	server, _, err := unix.Accept(listener)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(server)
	if _, err := unix.Write(server, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 16)
	n, err := unix.Read(client, got)
	if err != nil || string(got[:n]) != "hello" {
		t.Errorf("read %q, %v; want hello", got[:n], err)
	}
}

func sctpSocket(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	if err != nil {
		t.Fatal("socket of SCTP: ", err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}

func TestInGuestLoopbackIsUp(t *testing.T) {
	inGuest(t)
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		go func() {
			if c, err := l.Accept(); err == nil {
				_, _ = io.WriteString(c, "hello")
				c.Close()
			}
		}()
		d := net.Dialer{Timeout: 10 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err == nil {
			_, err = io.ReadAll(c)
			c.Close()
		}
		if err != nil {
			t.Error(err)
		}
		cancel()
		l.Close()
	}
}
