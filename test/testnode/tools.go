package testnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// toolsVariable set to 1 lets tests use the tools of test/tools. Building them takes
// minutes the first time, which no fast test should wait for without being told to.
const toolsVariable = "NODEKIT_TEST_TOOLS"

// NeedTools skips a test that uses the tools of test/tools, which take minutes to build,
// unless NODEKIT_TEST_TOOLS=1 asks for them. With REQUIRE_KERNEL=1 nothing may be
// skipped: the test fails then.
func NeedTools(tb testing.TB) {
	tb.Helper()
	switch {
	case os.Getenv(toolsVariable) == "1":
	case Required():
		tb.Fatalf("%s=1 is not set although %s=1 lets no test be skipped", toolsVariable, requireVariable)
	default:
		tb.Skipf("%s=1 is not set: without it the tools of test/tools are not built", toolsVariable)
	}
}

// Tool returns the path of a tool of test/tools, by hack/tool.sh.
func Tool(ctx context.Context, name string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack/tool.sh"), name, "test/tools")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, stderr.Bytes())
	}
	return string(bytes.TrimSpace(out)), nil
}

// ToolFolder makes dir hold links to tools by their plain names, as programs that call
// each other need it.
func ToolFolder(ctx context.Context, dir string, names ...string) error {
	for _, name := range names {
		path, err := Tool(ctx, name)
		if err == nil {
			err = os.Symlink(path, filepath.Join(dir, name))
		}
		if err != nil {
			return fmt.Errorf("link tool %s: %w", name, err)
		}
	}
	return nil
}
