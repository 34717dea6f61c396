//go:build linux

package nftables

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	nft "github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// lackingIPv6 has a Backend ask the kernel for a family that it does not have where it would
// ask for IPv6, which is what a kernel without nf_tables of IPv6 answers to that.
func lackingIPv6(f proxier.Family) nft.TableFamily {
	if f == proxier.IPv6 {
		return nft.TableFamily(unix.NFPROTO_DECNET)
	}
	return tableFamily(f)
}

// toldOf keeps what Degraded was told.
type toldOf []error

func (n *toldOf) take(err error) { *n = append(*n, err) }

func (n *toldOf) want(t *testing.T, times int, lacking bool) {
	t.Helper()
	if len(*n) != times {
		t.Fatalf("told %d times, want %d", len(*n), times)
	}
	last := (*n)[times-1]
	if lacking != errors.Is(last, proxier.ErrNotSupported) || lacking && !strings.Contains(last.Error(), "IPv6 is not programmed") {
		t.Errorf("told %v, want that IPv6 is not programmed: %t", last, lacking)
	}
}

// A family that nf_tables of the kernel does not have keeps the other from nothing, and is
// programmed once it is there.
func TestKernelALackingFamilyDoesNotStopTheOther(t *testing.T) {
	t.Parallel()
	ns := netnstest.New(t)
	var told toldOf
	b := newBackend(t, ns, Config{Local: podNet(), Degraded: told.take})
	b.kernelFamily = lackingIPv6
	web := service("web", proxier.TCP, "10.96.0.10:80", append(both4, sticky(time.Hour))...)
	web6 := service("web", proxier.TCP, "[fd00:96::10]:80", both6...)
	reset(t, b, web, web6)
	told.want(t, 1, true)
	affinity := b.affinity
	update(t, b, service("db", proxier.TCP, "10.96.0.11:80", on("10.244.1.11:8080")), service("db", proxier.TCP, "[fd00:96::11]:80", both6...))
	remove(t, b, web6)
	mustDump := func(want bool, part string) {
		t.Helper()
		var all []string
		for _, f := range b.families {
			elements, err := b.dumped(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range elements {
				all = append(all, e.canonical())
			}
		}
		if got := slices.ContainsFunc(all, func(e string) bool { return strings.Contains(e, part) }); got != want {
			t.Errorf("%s is in the kernel: %t, want %t, of\n%s", part, got, want, strings.Join(all, "\n"))
		}
	}
	mustDump(true, "10.96.0.11")
	mustDump(false, "fd00:96::")
	if _, err := b.Plan(t.Context(), &proxier.State{Ports: []*proxier.ServicePort{web}}); err != nil {
		t.Errorf("Plan: %v", err)
	}

	reset(t, b, web, web6)
	told.want(t, 2, true)
	if b.affinity != affinity {
		t.Error("clients have lost their pins, want the map of before")
	}
	mustDump(true, "10.96.0.10")

	b.kernelFamily = tableFamily
	reset(t, b, web, web6)
	told.want(t, 3, false)
	mustDump(true, "10.96.0.10")
	mustDump(true, "fd00:96::10")
	if err := b.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep: %v", err)
	}
	b.kernelFamily = lackingIPv6
	if err := b.Cleanup(t.Context()); err != nil {
		t.Errorf("Cleanup: %v", err)
	}
}

// Where no family is there, nothing is in force.
func TestKernelWithoutAnyFamilyIsAnError(t *testing.T) {
	t.Parallel()
	var told toldOf
	b := newBackend(t, netnstest.New(t), Config{Degraded: told.take})
	b.kernelFamily = func(proxier.Family) nft.TableFamily { return nft.TableFamily(unix.NFPROTO_DECNET) }
	if err := b.Reset(t.Context(), &proxier.State{}); !isNotFound(err) || len(told) > 0 {
		t.Errorf("Reset = %v, told %v; want that the kernel has no such family", err, told)
	}
}
