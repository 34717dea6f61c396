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
		set("rapid.checks", racedChecks)
	}
	if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
		set("rapid.seed", sameSeed)
	}
	leakcheck.Main(m)
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}

// sameSeed has each run try the same histories, so that one that fails is about the change
// at hand. Others are tried with -rapid.seed=N.
const sameSeed = "1"

// racedChecks is how many histories are tried with the race detector, which makes each
// some ten times slower. It looks for other bugs than the hundred tried without.
const racedChecks = "20"

// raced reports whether the race detector watches the test.
func raced() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}
