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
	return ToolOf(ctx, name, "test/tools")
}

// ToolOf returns the path of a tool of another module of tools, named by its folder
// below the repository's root.
func ToolOf(ctx context.Context, name, module string) (string, error) {
	root, err := moduleRoot(ctx)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(root, "hack/tool.sh"), name, module)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("build %s: %w: %s", name, err, stderr.Bytes())
	}
	return string(bytes.TrimSpace(out)), nil
}

// ToolFolder makes dir, if need be, and in it links to tools by their plain names, as
// programs that call each other need them.
func ToolFolder(ctx context.Context, dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make folder of tools: %w", err)
	}
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
