package ipvs

import (
	"errors"
	"io"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mdlayher/netlink"
	"github.com/mdlayher/netlink/nltest"
	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// comparer compares addresses by value.
func comparer() cmp.Option {
	return cmp.Options{
		cmp.AllowUnexported(foundServer{}, serverKey{}, settings{}, foundTarget{}, target{}, element{}),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
}

// answer is what the kernel would say about the server or target of an operation: it has
// the attributes of the request.
func answer(tb testing.TB, o op) []byte {
	tb.Helper()
	_, data, err := o.encode()
	if err != nil {
		tb.Fatal(err)
	}
	return append([]byte{cmdNewService, genlVersion, 0, 0}, data...)
}

func TestMessagesAreReadAsTheyAreWritten(t *testing.T) {
	mark := serverKey{family: proxier.IPv6, mark: 0x4e4b0007}
	for _, o := range []op{
		{kind: addServer, server: keyOf(proxier.TCP, "10.96.0.1:80"), settings: settings{scheduler: "rr"}},
		{kind: setServer, server: keyOf(proxier.SCTP, "[fd00::1]:443"), settings: settings{scheduler: "mh", flags: flagPersistent | flagHashPort, timeout: 300}},
		{kind: addServer, server: mark, settings: settings{scheduler: "sh", flags: flagFallback}},
	} {
		got, err := decodeServer(answer(t, o))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(foundServer{o.server, o.settings}, got, comparer()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
	}
	for _, o := range []op{
		{kind: addTarget, server: keyOf(proxier.TCP, "10.96.0.1:80"), target: target{netip.MustParseAddrPort("10.244.0.5:8080"), 3}},
		{kind: setTarget, server: mark, target: target{netip.MustParseAddrPort("[fd00:244::5]:8080"), 0}},
	} {
		got, err := decodeTarget(answer(t, o), o.server.family)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(foundTarget{target: o.target, masquerades: true}, got, comparer()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", o, diff)
		}
	}
}

// FuzzAnswers reads anything as an answer of the kernel: nothing breaks, and what comes out
// is of one family.
func FuzzAnswers(f *testing.F) {
	key := keyOf(proxier.TCP, "10.96.0.1:80")
	f.Add(answer(f, op{kind: addServer, server: key, settings: settings{scheduler: "rr"}}))
	f.Add(answer(f, op{kind: addTarget, server: keyOf(proxier.UDP, "[fd00::1]:53"), target: target{netip.MustParseAddrPort("[fd00:244::5]:53"), 1}}))
	f.Add([]byte{1, 2, 3})
	for _, a := range []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")} {
		data, err := (&device{index: 7}).encodeAddress(a)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := decodeServer(data); err == nil && s.key.at.IsValid() && proxier.FamilyOf(s.key.at.Addr()) != s.key.family && !s.key.at.Addr().Is4In6() {
			t.Errorf("server %v of %s", s.key.at, s.key.family)
		}
		if target, err := decodeTarget(data, proxier.IPv6); err == nil && target.at.IsValid() && target.at.Addr().BitLen() == 0 {
			t.Errorf("target %v", target.at)
		}
		_, _, _ = decodeAddress(data)
		for o := range objectCount {
			elements, err := decodeElements(o, proxier.IPv4, data)
			for _, e := range elements {
				if err == nil && e.in != o {
					t.Errorf("an element of %s came out of %s", e.in, o)
				}
			}
		}
	})
}

func TestElementsAreReadAsTheyAreWritten(t *testing.T) {
	at4, at6 := netip.MustParseAddrPort("10.96.0.1:80"), netip.MustParseAddrPort("[fd00::1]:80")
	for _, e := range []element{
		{in: serviceIPs, family: proxier.IPv4, at: netip.AddrPortFrom(at4.Addr(), 0)},
		{in: internal, family: proxier.IPv6, at: at6, proto: proxier.UDP},
		{in: externalLocal, family: proxier.IPv4, at: at4, proto: proxier.TCP, mark: 0x4e4b0001},
		{in: sources, family: proxier.IPv4, at: at4, proto: proxier.TCP, source: netip.MustParsePrefix("198.51.100.0/22")},
		{in: sources, family: proxier.IPv6, at: at6, proto: proxier.SCTP, source: netip.MustParsePrefix("2001:db8::/33")},
		{in: hairpins, family: proxier.IPv6, at: at6, proto: proxier.TCP},
		{in: healthPorts, family: proxier.IPv6, at: netip.AddrPortFrom(netip.Addr{}, 31000), proto: proxier.TCP},
	} {
		got, err := decodeElement(e.in, e.family, e.set(true))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(e, got, comparer()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", e, diff)
		}
		// As a list in an answer.
		a := netlink.NewAttributeEncoder()
		a.Nested(unix.NFTA_SET_ELEM_LIST_ELEMENTS, func(a *netlink.AttributeEncoder) error {
			a.Nested(unix.NFTA_LIST_ELEM, func(a *netlink.AttributeEncoder) error {
				s := e.set(true)
				for kind, b := range map[uint16][]byte{unix.NFTA_SET_ELEM_KEY: s.Key, setElemKeyEnd: s.KeyEnd, unix.NFTA_SET_ELEM_DATA: s.Val} {
					if b != nil {
						a.Nested(kind, func(a *netlink.AttributeEncoder) error { a.Bytes(unix.NFTA_DATA_VALUE, b); return nil })
					}
				}
				return nil
			})
			return nil
		})
		data, err := a.Encode()
		if err != nil {
			t.Fatal(err)
		}
		list, err := decodeElements(e.in, e.family, append(make([]byte, sizeofNfgenmsg), data...))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]element{e}, list, comparer()); diff != "" {
			t.Errorf("%s in a list (-want +got):\n%s", e, diff)
		}
	}
}

func TestAddressesAreReadAsTheyAreWritten(t *testing.T) {
	for _, s := range []string{"10.96.0.1", "fd00::1"} {
		want := netip.MustParseAddr(s)
		data, err := (&device{index: 7}).encodeAddress(want)
		if err != nil {
			t.Fatal(err)
		}
		if index, got, err := decodeAddress(data); err != nil || index != 7 || got != want {
			t.Errorf("decodeAddress = %d, %s, %v, want 7, %s", index, got, err, want)
		}
	}
}

// A listing that somebody's change interrupted may lack something: it is begun anew.
func TestInterruptedListingsAreBegunAnew(t *testing.T) {
	for _, tt := range []struct {
		name        string
		interrupted int
		want        int
		fails       bool
	}{
		{"at once", 0, 1, false},
		{"after two that were interrupted", 2, 3, false},
		{"never", dumpTries, dumpTries, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dumps := 0
			nl := nltest.Dial(func(req []netlink.Message) ([]netlink.Message, error) {
				if len(req) == 0 {
					return nil, io.EOF
				}
				h := netlink.Header{Sequence: req[0].Header.Sequence, PID: req[0].Header.PID}
				if req[0].Header.Type == unix.RTM_GETLINK {
					return nltest.Error(int(unix.ENODEV), req)
				}
				addr := append([]byte{unix.AF_INET, 32, 0, 0, 1, 0, 0, 0}, nltest.MustMarshalAttributes([]netlink.Attribute{
					{Type: unix.IFA_LOCAL, Data: []byte{10, 0, 0, 2}},
				})...)
				if dumps++; dumps <= tt.interrupted {
					h.Flags |= netlink.DumpInterrupted
				}
				return nltest.Multipart([]netlink.Message{{Header: h, Data: addr}, {Header: h}})
			})
			s, err := (&device{nl: nl, name: "x"}).look(t.Context())
			if tt.fails != errors.Is(err, errInterrupted) || dumps != tt.want {
				t.Errorf("look = %v after %d listings, want %d", err, dumps, tt.want)
			}
			if !tt.fails && len(s.elsewhere) != 1 {
				t.Errorf("addresses %v, %v, want one", s.elsewhere, err)
			}
		})
	}
}
