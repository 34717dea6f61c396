package main

import (
	"testing"
	"time"
)

func TestLine(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 3, 4, 56_789_000, time.UTC)
	for _, test := range []struct{ format, want string }{
		{"%3t", "12:03:04.056"},
		{"at %t.", "at 12:03:04."},
		{"%0t %6t", "12:03:04 12:03:04.056789"},
		{"%3c %t%", "%3c 12:03:04%"},
		{"none", "none"},
	} {
		if got := line(test.format, now); got != test.want {
			t.Errorf("%q: got %q, want %q", test.format, got, test.want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, args := range [][]string{{"-d0", "%3t"}, {"-d", "0", "%3t"}} {
		delay, format, err := parse(args)
		if delay != 0 || format != "%3t" || err != nil {
			t.Errorf("%q: got %v, %q, %v", args, delay, format, err)
		}
	}
	for _, args := range [][]string{nil, {"-d"}, {"-dx", "%t"}, {"%t", "%t"}} {
		if _, _, err := parse(args); err == nil {
			t.Errorf("%q is no error", args)
		}
	}
}
