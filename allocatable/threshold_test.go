package allocatable

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParseThreshold(t *testing.T) {
	tests := []struct {
		name, in string
		capacity string
		want     string // of the capacity; empty: refused
		none     bool
	}{
		{name: "amount", in: "100Mi", capacity: "1Gi", want: "100Mi"},
		{name: "amount beyond the capacity", in: "2Gi", capacity: "1Gi", want: "2Gi"},
		{name: "share", in: "12.5%", capacity: "16Gi", want: "2Gi"},
		{name: "share rounds down", in: "10%", capacity: "99", want: "9"},
		{name: "share of nothing", in: "10%", capacity: "0", want: "0"},
		{name: "share of a quantity in decimals", in: "50%", capacity: "1500m", want: "0"},
		{name: "zero per cent", in: "0%", capacity: "1Gi", want: "0", none: true},
		{name: "zero per cent, longer", in: "0.00%", capacity: "1Gi", want: "0", none: true},
		{name: "a hundred per cent", in: "100%", capacity: "1Gi", want: "0", none: true},
		{name: "zero", in: "0", capacity: "1Gi"},
		{name: "negative", in: "-1Mi", capacity: "1Gi"},
		{name: "negative share", in: "-1%", capacity: "1Gi"},
		{name: "more than all", in: "100.1%", capacity: "1Gi"},
		{name: "no number", in: "%", capacity: "1Gi"},
		{name: "a fraction", in: "1/2%", capacity: "1Gi"},
		{name: "two points", in: "1.2.3%", capacity: "1Gi"},
		{name: "text", in: "lots", capacity: "1Gi"},
		{name: "empty", in: "", capacity: "1Gi"},
		{name: "digits without end", in: "1e-100000000", capacity: "1Gi"},
		{name: "long", in: "0.00000000000000000000000000000000000000000000000000000000000000001%", capacity: "1Gi"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			th, err := ParseThreshold(tt.in)
			if (err == nil) != (tt.want != "") {
				t.Fatalf("error %v, want of the capacity %q", err, tt.want)
			}
			if err != nil {
				return
			}
			got := th.Of(resource.MustParse(tt.capacity))
			if got.String() != tt.want || th.None() != tt.none || th.String() != tt.in {
				t.Errorf("%s of %s is %s, none %t; want %s, %t", th, tt.capacity, &got, th.None(), tt.want, tt.none)
			}
		})
	}
}

func TestZeroThreshold(t *testing.T) {
	var th Threshold
	if q := th.Of(resource.MustParse("1Gi")); !th.None() || !q.IsZero() || th.String() != "0%" {
		t.Errorf("none %t, %s, %s", th.None(), &q, th)
	}
}

func FuzzParseThreshold(f *testing.F) {
	for _, s := range []string{"100Mi", "12.5%", "0%", "100%", "1e3", "1e-400000000", "0.1m", "9223372036854775807", "1E%", ".%", "-5%"} {
		f.Add(s)
	}
	capacity := resource.MustParse("16Gi")
	f.Fuzz(func(t *testing.T, s string) {
		th, err := ParseThreshold(s)
		if err != nil {
			return
		}
		if th.String() != s {
			t.Errorf("%q is written as %q", s, th)
		}
		got := th.Of(capacity)
		if got.Sign() < 0 || th.None() && !got.IsZero() {
			t.Errorf("%q of %s is %s", s, &capacity, &got)
		}
		if th.percent != nil && got.Cmp(capacity) > 0 {
			t.Errorf("%q of %s is %s", s, &capacity, &got)
		}
	})
}
