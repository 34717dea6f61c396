package conntrack

import (
	"net/netip"
	"testing"

	"github.com/nodekit-go/nodekit/proxier"
)

func FuzzParseFlow(f *testing.F) {
	attrs, err := filterAttrs(proxier.IPv4, frontend{port: 53})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message(msgGet, 0, proxier.IPv4, attrs).Data)
	f.Add([]byte{2, 0, 0, 0, 8, 0, 12, 0, 1, 2, 3, 4})
	f.Fuzz(func(t *testing.T, data []byte) {
		if fl, ok, err := parseFlow(data); ok && (err != nil || !fl.dst.IsValid() || !fl.from.IsValid()) {
			t.Errorf("parseFlow() = %+v, %v", fl, err)
		}
	})
}

func TestPendingStaysBounded(t *testing.T) {
	p := newPending()
	for i := range maxPending + 10 {
		p.add(proxier.IPv4, frontend{port: uint16(i), addr: addrOf(i)})
	}
	if n := len(p[proxier.IPv4]); n > maxPending {
		t.Errorf("%d frontends are pending", n)
	}
}

func addrOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}
