package podsync_test

import (
	"flag"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if raced() {
		if err := flag.Set("rapid.checks", racedChecks); err != nil {
			panic(err)
		}
	}
	leakcheck.Main(m)
}

// racedChecks is how many histories are tried with the race detector, which makes each
// some ten times slower. It looks for other bugs than the hundred tried without.
const racedChecks = "20"

// raced reports whether the race detector watches the test.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
