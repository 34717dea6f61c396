package main

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the contender that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-contender" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestCheaperThanTickers(t *testing.T) {
	var out strings.Builder
	l := load{probes: 10000, period: time.Second, length: 3 * time.Second}
	// A busy machine adds noise; the targets are 1.0 and 0.5.
	err := compare(&out, l, 3, 1.2, 0.5)
	t.Log("\n" + out.String())
	if err != nil {
		t.Error(err)
	}
}
