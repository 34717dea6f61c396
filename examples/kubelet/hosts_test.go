package main

import (
	"net/netip"
	"strings"
	"testing"
)

func TestDeniedHosts(t *testing.T) {
	tests := []struct {
		flag, ip, want string
	}{
		{"169.254.0.0/16", "169.254.169.254", "169.254.169.254 is in 169.254.0.0/16, which --deny-probe-hosts denies"},
		{"169.254.0.0/16", "10.0.0.1", ""},
		{"169.254.0.0/16, fd00:ec2::/32", "fd00:ec2::254", "denies"},
		{"0.0.0.0/0,::/0", "127.0.0.1", "denies"},
		{"0.0.0.0/0,::/0", "::1", "denies"},
	}
	for _, tt := range tests {
		t.Run(tt.flag+" "+tt.ip, func(t *testing.T) {
			reach, err := (&hosts{denied: tt.flag}).reachable()
			if err != nil {
				t.Fatal(err)
			}
			err = reach(netip.MustParseAddr(tt.ip))
			if (err != nil) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q", err, tt.want)
			}
		})
	}
	if _, err := (&hosts{denied: "10.0.0.0/8,localhost"}).reachable(); err == nil || !strings.Contains(err.Error(), `"localhost" is no network`) {
		t.Errorf("the error is %v, want that localhost is no network", err)
	}
	if reach, err := (&hosts{}).reachable(); reach != nil || err != nil {
		t.Errorf("without the flag something is decided: %v", err)
	}
}
