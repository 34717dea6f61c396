package testnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// requireVariable is the environment variable that turns skipped tests into
// failed ones, so that a host that lacks something does not look fine.
const requireVariable = "REQUIRE_KERNEL"

// Prepare makes sure that nodes can be started here. Without root or without the
// packages it returns an error, and a test skips; with REQUIRE_KERNEL=1 in the
// environment it installs the packages, and an error fails the test.
func Prepare(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("test nodes need root")
	}
	if Required() {
		return Install(ctx, os.Stderr)
	}
	if missing := Missing(); len(missing) > 0 {
		return fmt.Errorf("test nodes need the packages %s (%s=1 installs them)", strings.Join(missing, " "), requireVariable)
	}
	return nil
}

// Required reports whether tests must run: REQUIRE_KERNEL=1.
func Required() bool { return os.Getenv(requireVariable) == "1" }
