//go:build linux

package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/internal/osthread"
)

// pluginDirs is where the plugins are on Debian and elsewhere.
var pluginDirs = []string{"/usr/lib/cni", "/opt/cni/bin"}

// node is a host in a network namespace, with real plugins.
type node struct {
	*testing.T
	ns   *netnstest.NS
	v    *Invoker
	n    *Network
	dir  string // of this test
	conf string // directory of the configuration
}

func newNode(t *testing.T) *node {
	t.Helper()
	for _, plugin := range []string{"bridge", "host-local", "portmap", "loopback"} {
		if _, err := os.Stat(filepath.Join(pluginDirs[0], plugin)); err != nil {
			unavailable(t, fmt.Sprintf("the plugin %s of the package containernetworking-plugins", plugin))
		}
	}
	if _, err := exec.LookPath("iptables"); err != nil {
		unavailable(t, "iptables, which the plugin portmap runs,")
	}
	s := &node{T: t, ns: netnstest.New(t), dir: t.TempDir()}
	s.ns.Forward(t)
	s.conf = filepath.Join(s.dir, "net.d")
	if err := os.Mkdir(s.conf, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(s.conf, "10-pods.conflist"), `{"cniVersion": "1.0.0", "name": "pods", "plugins": [
		{"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true, "ipam": {"type": "host-local", "dataDir": "`+s.addresses()+`",
			"ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd00:88::/64"}]], "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}},
		{"type": "portmap", "capabilities": {"portMappings": true}}]}`)
	s.n, s.v = mustLoad(t, s.conf), mustNew(t, Config{BinDirs: pluginDirs, StateDir: filepath.Join(s.dir, "state")})
	return s
}

func mustLoad(tb testing.TB, dir string) *Network {
	tb.Helper()
	n, err := Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func unavailable(tb testing.TB, what string) {
	tb.Helper()
	if os.Getenv("REQUIRE_KERNEL") == "1" {
		tb.Fatalf("there is no %s", what)
	}
	tb.Skipf("there is no %s (REQUIRE_KERNEL=1 makes this a failure)", what)
}

// addresses is where host-local keeps what it has given out.
func (s *node) addresses() string { return filepath.Join(s.dir, "networks") }

// pod makes a network namespace.
func (s *node) pod(id string) Attachment {
	s.Helper()
	path, err := NewNetNS(filepath.Join(s.dir, "netns"), id)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := DeleteNetNS(path); err != nil {
			s.Error(err)
		}
	})
	return Attachment{ContainerID: id, IfName: "eth0", NetNS: path}
}

// do runs f where the plugins have to run.
func (s *node) do(f func() error) {
	s.Helper()
	if err := s.ns.Do(f); err != nil {
		s.Fatal(err)
	}
}

func (s *node) add(a Attachment) *Result {
	s.Helper()
	var r *Result
	s.do(func() (err error) { r, err = s.v.Add(s.Context(), s.n, a); return err })
	return r
}

func (s *node) del(a Attachment) {
	s.Helper()
	s.do(func() error { return s.v.Del(s.Context(), s.n, a) })
}

// wantClean fails if an address, an interface, a rule or a record is left.
func (s *node) wantClean() {
	s.Helper()
	if given := given(s.T, s.addresses()); len(given) > 0 {
		s.Errorf("host-local still has %v", given)
	}
	// The kernel takes a namespace down, and with it the other end of a veth pair, a
	// while after its last user is gone.
	for deadline := time.Now().Add(time.Minute); ; pause(s.Context(), 10*time.Millisecond) {
		links, err := s.ns.Run("ip", "-o", "link")
		if err == nil && !strings.Contains(links, "veth") {
			break
		}
		if err != nil || time.Now().After(deadline) {
			s.Errorf("interfaces are left: %v\n%s", err, links)
			break
		}
	}
	for _, iptables := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(iptables); err != nil {
			continue
		}
		if rules, err := s.ns.Run(iptables, "-t", "nat", "-S"); err != nil || strings.Contains(rules, "CNI-DN-") {
			s.Errorf("rules are left: %v\n%s", err, rules)
		}
	}
	if left, err := s.v.Attachments(); err != nil || len(left) > 0 {
		s.Errorf("records are left: %v, %v", left, err)
	}
}

// given lists the addresses that host-local has given out.
func given(tb testing.TB, dir string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		tb.Fatal(err)
	}
	var all []string
	for _, f := range files {
		if base := filepath.Base(f); base != "lock" && !strings.HasPrefix(base, "last_reserved_ip") {
			all = append(all, base)
		}
	}
	return all
}

// inside runs f on a thread in the namespace at a path.
func inside(path string, f func() error) error {
	return osthread.Do(func() error {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
			return err
		}
		return f()
	})
}

// serve answers with a word on port 80 of a pod.
func serve(tb testing.TB, ns, word string) {
	tb.Helper()
	var l net.Listener
	err := inside(ns, func() (err error) { l, err = net.Listen("tcp", ":80"); return err })
	if err != nil {
		tb.Fatal(err)
	}
	var wg sync.WaitGroup
	tb.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, word)
			c.Close()
		}
	})
}

// read returns what a server says, asked from within a namespace.
func read(ns, addr string) (string, error) {
	var c net.Conn
	err := inside(ns, func() (err error) { c, err = net.DialTimeout("tcp", addr, time.Minute); return err })
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	word, err := io.ReadAll(c)
	return string(word), err
}

// settled waits until the IPv6 addresses of a pod are usable.
func (s *node) settled(ns string) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); ; pause(s.Context(), 10*time.Millisecond) {
		var out []byte
		err := inside(ns, func() (err error) {
			out, err = exec.Command("ip", "-6", "-o", "addr", "show", "tentative").Output()
			return err
		})
		if err == nil && len(out) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("addresses are tentative after a minute: %v %s", err, out)
		}
	}
}

func TestKernelPodsReachEachOther(t *testing.T) {
	s := newNode(t)
	client := netnstest.New(t)
	netnstest.Veth(t, netnstest.End{NS: client, Name: "eth0", Addrs: []string{"192.0.2.2/24"}},
		netnstest.End{NS: s.ns, Name: "eth0", Addrs: []string{"192.0.2.1/24"}})
	one, two := s.pod("one"), s.pod("two")
	one.Capabilities.PortMappings = []PortMapping{{HostPort: 8080, ContainerPort: 80}}
	first, second := s.add(one), s.add(two)
	if len(first.Addrs()) != 2 || !first.Addrs()[0].Is4() || !first.Addrs()[1].Is6() {
		t.Fatalf("addresses are %v, want one of each family", first.Addrs())
	}
	serve(t, one.NetNS, "one")
	serve(t, two.NetNS, "two")
	s.settled(one.NetNS)
	s.settled(two.NetNS)
	for _, flow := range []struct {
		name, from, to, want string
	}{
		{"IPv4", one.NetNS, netip.AddrPortFrom(second.Addrs()[0], 80).String(), "two"},
		{"IPv6", two.NetNS, netip.AddrPortFrom(first.Addrs()[1], 80).String(), "one"},
		{"port of the host from outside", client.Path(), "192.0.2.1:8080", "one"},
		{"the pod's own lo", one.NetNS, "127.0.0.1:80", "one"},
	} {
		if got, err := read(flow.from, flow.to); err != nil || got != flow.want {
			t.Errorf("%s: %q, %v; want %q", flow.name, got, err, flow.want)
		}
	}
	// CHECK of portmap 1.1.1 seeks the IPv4 rules of a pod with both families in IPv6
	// too, so that pod one is not asked about.
	s.do(func() error {
		return errors.Join(s.v.Check(t.Context(), two.Key()), s.v.Status(t.Context(), s.n), s.v.Validate(t.Context(), s.n))
	})
	if err := inside(two.NetNS, func() error { return exec.Command("ip", "link", "set", "eth0", "down").Run() }); err != nil {
		t.Fatal(err)
	}
	if err := inside(two.NetNS, func() error { return exec.Command("ip", "addr", "flush", "dev", "eth0").Run() }); err != nil {
		t.Fatal(err)
	}
	if err := s.ns.Do(func() error { return s.v.Check(t.Context(), two.Key()) }); err == nil {
		t.Error("CHECK of a pod without its address finds nothing")
	}
	if got := given(t, s.addresses()); len(got) != 4 {
		t.Errorf("host-local has %v, want four addresses", got)
	}
	if leaks, err := s.n.Leaks([]Key{one.Key()}); err != nil || len(leaks) != 2 || leaks[0].Owner != two.Key() || leaks[0].Address != second.Addrs()[0] {
		t.Errorf("leaks if only one was valid: %v, %v; want the addresses of two", leaks, err)
	}
	s.del(one)
	s.del(two)
	s.wantClean()
	s.del(one) // again
}

func TestKernelFailedAddLeavesNothing(t *testing.T) {
	s := newNode(t)
	var conf map[string]any
	if err := json.Unmarshal(s.n.Config(), &conf); err != nil {
		t.Fatal(err)
	}
	conf["plugins"] = append(conf["plugins"].([]any), map[string]any{"type": "nonesuch"})
	data, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	broken := mustParse(t, string(data))
	for i := range 5 {
		a := s.pod(fmt.Sprintf("c%d", i))
		err := s.ns.Do(func() error { _, err := s.v.Add(t.Context(), broken, a); return err })
		if !errors.Is(err, ErrPluginMissing) || !strings.Contains(err.Error(), "/usr/lib/cni, /opt/cni/bin") {
			t.Fatalf("error is %v, want ErrPluginMissing with the directories", err)
		}
		s.wantClean()
	}
}

func TestKernelNamespaceThatIsGone(t *testing.T) {
	s := newNode(t)
	a := s.pod("c1")
	a.Capabilities.PortMappings = []PortMapping{{HostPort: 8080, ContainerPort: 80}}
	s.add(a)
	if err := DeleteNetNS(a.NetNS); err != nil {
		t.Fatal(err)
	}
	s.del(a)
	s.wantClean()

	// A stranger at the same path keeps its interfaces.
	b := s.pod("c2")
	s.add(b)
	if err := DeleteNetNS(b.NetNS); err != nil {
		t.Fatal(err)
	}
	if path, err := NewNetNS(filepath.Dir(b.NetNS), "c2"); err != nil || path != b.NetNS {
		t.Fatal(path, err)
	}
	if err := inside(b.NetNS, func() error {
		return exec.Command("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "other").Run()
	}); err != nil {
		t.Fatal(err)
	}
	s.do(func() error { _, err := s.v.GC(t.Context(), s.n, keep()); return err })
	s.wantClean()
	if err := inside(b.NetNS, func() error { _, err := net.InterfaceByName("eth0"); return err }); err != nil {
		t.Errorf("the stranger lost its interface: %v", err)
	}

	// The host itself is refused.
	own := s.pod("c3")
	own.NetNS = s.ns.Path()
	err := s.ns.Do(func() error { _, err := s.v.Add(t.Context(), s.n, own); return err })
	if err == nil || !strings.Contains(err.Error(), "is the network namespace of this process") {
		t.Errorf("error is %v", err)
	}
}

// TestKernelKilledAgent kills an agent at random moments; GC removes whatever it
// had done, while the pods' namespaces live on and after they are gone.
func TestKernelKilledAgent(t *testing.T) {
	s := newNode(t)
	found := 0
	for i := range 8 {
		pods := []Attachment{s.pod(fmt.Sprintf("a%d", i)), s.pod(fmt.Sprintf("b%d", i))}
		args := []string{pluginDirs[0], filepath.Join(s.dir, "state"), s.conf}
		for _, p := range pods {
			args = append(args, p.ContainerID+"="+p.NetNS)
		}
		killAgent(t, rand.N(500*time.Millisecond), s.ns.Do, args...)
		if i%2 == 1 { // as after a reboot
			for _, p := range pods {
				if err := DeleteNetNS(p.NetNS); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.do(func() error {
			removed, err := s.v.GC(t.Context(), s.n, keep())
			found += len(removed)
			return err
		})
		s.wantClean()
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
	}
	if found == 0 {
		t.Error("no kill found an attachment: the test shows nothing")
	}
}

func TestKernelNetNS(t *testing.T) {
	netnstest.New(t) // skips without the privilege
	dir := t.TempDir()
	before, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	path, err := NewNetNS(dir, "pod")
	if err != nil {
		t.Fatal(err)
	}
	if id, err := identify(path); id == "" || err != nil {
		t.Errorf("the new namespace is %q, %v", id, err)
	}
	if after, err := os.Readlink("/proc/self/ns/net"); err != nil || after != before {
		t.Errorf("the main thread went from %s to %s, %v", before, after, err)
	}
	err = inside(path, func() error {
		lo, err := net.InterfaceByName("lo")
		if err == nil && lo.Flags&net.FlagUp == 0 {
			err = fmt.Errorf("lo is %v", lo.Flags)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := NewNetNS(dir, "pod"); !errors.Is(err, os.ErrExist) {
		t.Errorf("the same name again: %v, want os.ErrExist", err)
	}
	for _, name := range []string{"", ".", "..", "a/b", ".hidden"} {
		if _, err := NewNetNS(dir, name); err == nil {
			t.Errorf("name %q: no error", name)
		}
	}
	for range 2 {
		if err := DeleteNetNS(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file is still there: %v", err)
	}
	refuses(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if pause(ctx, time.Hour) {
		t.Error("a pause outlives its context")
	}
}

// TestKernelNamespacesAtOnePath makes one namespace after the other at the same path:
// the kernel uses the inode of one that is gone again, its id must not come back.
func TestKernelNamespacesAtOnePath(t *testing.T) {
	netnstest.New(t) // skips without the privilege
	dir := t.TempDir()
	seen := map[string]bool{}
	for range 20 {
		path, err := NewNetNS(dir, "pod")
		if err != nil {
			t.Fatal(err)
		}
		id, err := identify(path)
		if again, _ := identify(path); err != nil || again != id {
			t.Errorf("the namespace is %q, then %q, %v", id, again, err)
		}
		if seen[id] {
			t.Errorf("a later namespace is %q too", id)
		}
		seen[id] = true
		if still(path, id) != path {
			t.Errorf("namespace %q counts as gone", id)
		}
		if err := DeleteNetNS(path); err != nil {
			t.Fatal(err)
		}
	}
}

// refuses has what DeleteNetNS must leave alone, and what a crash leaves.
func refuses(t *testing.T, dir string) {
	t.Helper()
	file, link, empty := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "empty")
	write(t, file, "content")
	write(t, empty, "")
	if err := os.Symlink(empty, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, dir, "/proc/self/ns/net"} {
		if err := DeleteNetNS(path); err == nil {
			t.Errorf("%s was deleted", path)
		}
	}
	if err := DeleteNetNS(empty); err != nil {
		t.Errorf("a crash before the mount leaves an empty file: %v", err)
	}
}
