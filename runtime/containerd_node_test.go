package runtime_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// A harness that has started a runtime of its own says so in these variables.
const (
	// endpointVariable is the runtime's socket.
	endpointVariable = "NODEKIT_CRI_ENDPOINT"
	// imageVariable names the image made of hack/images/life, which must be present.
	imageVariable = "NODEKIT_TEST_IMAGE"
	// cgroupVariable is the control group for the pods; it may be empty.
	cgroupVariable = "NODEKIT_TEST_CGROUP"
	// requireVariable set to 1 makes a test that cannot run fail.
	requireVariable = "REQUIRE_KERNEL"
)

// TestContainerdConformance holds a real runtime to the table that the fake one
// passes.
func TestContainerdConformance(t *testing.T) {
	endpoint, image := os.Getenv(endpointVariable), os.Getenv(imageVariable)
	if endpoint == "" || image == "" {
		reason := fmt.Sprintf("no runtime to test against: %s and %s are not set", endpointVariable, imageVariable)
		if os.Getenv(requireVariable) == "1" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	runtimetest.Conformance(t, runtimetest.Target{
		Image: image,
		Dial: func(ctx context.Context, cfg runtime.Config) (*runtime.Client, error) {
			return runtime.Dial(ctx, endpoint, cfg)
		},
		Args:         lifeArgs,
		Exec:         lifeExec,
		CgroupParent: os.Getenv(cgroupVariable),
	})
}

// lifeArgs are the arguments of the program in the image.
func lifeArgs(_ string, life runtimetest.Life) []string {
	var args []string
	if life.Exit != nil {
		args = append(args, fmt.Sprintf("-for=%v", life.Exit.After), fmt.Sprintf("-exit=%d", life.Exit.Code))
	}
	if life.IgnoreTerm {
		args = append(args, "-ignore-term")
	}
	return args
}

// lifeExec runs the same program beside itself.
func lifeExec(result runtimetest.ExecResult) []string {
	after := max(result.After, time.Millisecond)
	return []string{"/life", fmt.Sprintf("-for=%v", after), fmt.Sprintf("-exit=%d", result.Code)}
}
