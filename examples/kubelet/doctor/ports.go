package doctor

import (
	"bufio"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listener is a socket that listens for TCP connections.
type listener struct {
	address netip.AddrPort
	inode   string
}

// lookAtPorts looks who holds the ports that the kubelet serves on.
func lookAtPorts(ctx context.Context, n *Node, r *report) {
	listeners, err := listeners(n.Proc)
	if err != nil {
		r.skip("%s", err)
		return
	}
	k := n.Kubelet
	var free, held []string
	for _, want := range []struct {
		name, address string
		port          int32
	}{
		{"port", k.Address, k.Port},
		{"healthzPort", k.HealthzBindAddress, *k.HealthzPort},
		{"readOnlyPort", k.Address, k.ReadOnlyPort},
	} {
		if want.port == 0 || want.name == "port" && !*k.EnableServer {
			continue
		}
		at := net.JoinHostPort(want.address, strconv.Itoa(int(want.port)))
		i := slices.IndexFunc(listeners, func(l listener) bool { return clash(l.address, want.address, want.port) })
		if i < 0 {
			free = append(free, at)
			continue
		}
		name, pid := holder(ctx, n.Proc, listeners[i].inode)
		if name != "kubelet" {
			r.problem("end that program, or set "+want.name+" to another port", "%s %s is held by %s", want.name, at, whose(name, pid))
			continue
		}
		held = append(held, at)
	}
	switch {
	case !r.fine():
	case len(held) == 0:
		r.ok("free: %s", strings.Join(free, ", "))
	case len(free) == 0:
		r.ok("held by a kubelet: %s", strings.Join(held, ", "))
	default:
		r.ok("held by a kubelet: %s; free: %s", strings.Join(held, ", "), strings.Join(free, ", "))
	}
}

func whose(name string, pid int) string {
	if name == "" {
		return "a program that cannot be seen from here"
	}
	return fmt.Sprintf("%s (pid %d)", name, pid)
}

// clash reports whether a socket is in the way of another at an address.
func clash(have netip.AddrPort, address string, port int32) bool {
	want, err := netip.ParseAddr(address)
	if err != nil || int32(have.Port()) != port {
		return false
	}
	a, b := have.Addr().Unmap(), want.Unmap()
	return a == b || a.IsUnspecified() && (a.Is6() || b.Is4()) || b.IsUnspecified() && (b.Is6() || a.Is4())
}

// listeners reads the sockets that listen in the network namespace of this thread, see
// proc_net_tcp of the kernel's documentation.
func listeners(proc string) ([]listener, error) {
	var all []listener
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(proc, "thread-self", "net", name))
		if err != nil {
			if name == "tcp6" {
				break // a kernel without IPv6
			}
			return nil, err
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if l, ok := parseListener(lines.Text()); ok {
				all = append(all, l)
			}
		}
		f.Close()
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// parseListener reads a line; it is false for connections.
//
//	0: 0100007F:2808 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 1234 1 …
func parseListener(line string) (listener, bool) {
	const listen = "0A"
	fields := strings.Fields(line)
	if len(fields) < 10 || fields[3] != listen {
		return listener{}, false
	}
	host, port, ok := strings.Cut(fields[1], ":")
	number, err := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil {
		return listener{}, false
	}
	raw, err := hex.DecodeString(host)
	if err != nil || len(raw) != 4 && len(raw) != 16 {
		return listener{}, false
	}
	// Each word of four bytes is in the order of the machine, which is little-endian on all
	// that a kubelet runs on but s390x.
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word)
	}
	address, ok := netip.AddrFromSlice(raw)
	return listener{address: netip.AddrPortFrom(address, uint16(number)), inode: fields[9]}, ok
}

// holder finds the process that has a socket; the name is empty if it cannot be seen.
func holder(ctx context.Context, proc, inode string) (name string, pid int) {
	processes, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil {
		return "", 0
	}
	for _, dir := range processes {
		if ctx.Err() != nil {
			return "", 0
		}
		fds, err := os.ReadDir(filepath.Join(dir, "fd"))
		if err != nil {
			continue // ended, or another's
		}
		for _, fd := range fds {
			target, err := os.Readlink(filepath.Join(dir, "fd", fd.Name()))
			if err != nil || target != "socket:["+inode+"]" {
				continue
			}
			comm, err := os.ReadFile(filepath.Join(dir, "comm"))
			number, numberErr := strconv.Atoi(filepath.Base(dir))
			if err != nil || numberErr != nil {
				return "", 0
			}
			return strings.TrimSpace(string(comm)), number
		}
	}
	return "", 0
}
