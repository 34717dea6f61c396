package proxier

import (
	"net/netip"
	"testing"
)

func TestParseAddr(t *testing.T) {
	tests := []struct {
		name, in string
		want     string // empty: refused
	}{
		{name: "IPv4", in: "10.0.0.1", want: "10.0.0.1"},
		{name: "leading zeros are decimal", in: "010.000.00.012", want: "10.0.0.12"},
		{name: "IPv6", in: "FD00:0::1", want: "fd00::1"},
		{name: "IPv4-mapped", in: "::ffff:10.0.0.1", want: "10.0.0.1"},
		{name: "zone", in: "fe80::1%eth0"},
		{name: "empty", in: ""},
		{name: "octet too large", in: "10.0.0.0256"},
		{name: "three octets", in: "10.0.1"},
		{name: "host name", in: "lb.example"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseAddr(tt.in)
			if tt.want == "" {
				if err == nil {
					t.Errorf("parseAddr(%q) = %v, want an error", tt.in, got)
				}
				return
			}
			if err != nil || got != netip.MustParseAddr(tt.want) {
				t.Errorf("parseAddr(%q) = %v, %v, want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func TestParsePrefix(t *testing.T) {
	tests := []struct {
		name, in string
		want     string // empty: refused
	}{
		{name: "IPv4", in: "10.1.0.0/16", want: "10.1.0.0/16"},
		{name: "blanks and host bits", in: " 203.0.113.7/24 ", want: "203.0.113.0/24"},
		{name: "leading zeros", in: "010.001.0.0/16", want: "10.1.0.0/16"},
		{name: "IPv6", in: "2001:db8::1/32", want: "2001:db8::/32"},
		{name: "IPv4-mapped", in: "::ffff:10.0.0.0/104", want: "10.0.0.0/8"},
		{name: "no length", in: "10.0.0.1"},
		{name: "length too large", in: "10.0.0.0/33"},
		{name: "IPv4-mapped beyond its IPv4 part", in: "::ffff:0:0/90"},
		{name: "not a number", in: "10.0.0.0/x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parsePrefix(tt.in)
			if tt.want == "" {
				if err == nil {
					t.Errorf("parsePrefix(%q) = %v, want an error", tt.in, got)
				}
				return
			}
			if err != nil || got != netip.MustParsePrefix(tt.want) {
				t.Errorf("parsePrefix(%q) = %v, %v, want %s", tt.in, got, err, tt.want)
			}
		})
	}
}

func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"10.0.0.1", "010.0.0.1", "::ffff:1.2.3.4", "fe80::1%x", "0.0.0.0", ".", "1..2.3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if a, err := parseAddr(s); err == nil && (!a.IsValid() || a.Is4In6() || a.Zone() != "") {
			t.Errorf("parseAddr(%q) = %v", s, a)
		}
		if p, err := parsePrefix(s + "/24"); err == nil && (!p.IsValid() || p != p.Masked()) {
			t.Errorf("parsePrefix(%q) = %v", s, p)
		}
	})
}
