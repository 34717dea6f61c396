// Package leakcheck makes a test binary fail when its tests leave goroutines or file
// descriptors behind. It uses the standard library only.
//
//	func TestMain(m *testing.M) { leakcheck.Main(m) }
package leakcheck

import (
	"fmt"
	"os"
	"testing"
	"time"
)

const (
	// patience is how long goroutines that were told to end may take: the machine of a
	// test is busy.
	patience = time.Minute
	// interval is the time between two looks.
	interval = 20 * time.Millisecond
)

// Main runs the tests and exits: with their code if it is not zero, with 1 if
// something leaked, else with 0.
func Main(m *testing.M) {
	before := files()
	code := m.Run()
	if code == 0 {
		code = report(before, patience)
	}
	os.Exit(code)
}

// report waits for leftovers to go and prints those that stay. It returns the exit
// code.
func report(before map[string]string, patience time.Duration) int {
	left := wait(patience, func() []string { return append(goroutines(), newFiles(before)...) })
	if len(left) == 0 {
		return 0
	}
	fmt.Fprintf(os.Stderr, "leakcheck: the tests left %d goroutines or files behind:\n", len(left))
	for _, l := range left {
		fmt.Fprintf(os.Stderr, "\n%s\n", l)
	}
	return 1
}

// wait looks until nothing is left, or for patience.
func wait(patience time.Duration, look func() []string) []string {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		left := look()
		if len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return left
		}
	}
}
