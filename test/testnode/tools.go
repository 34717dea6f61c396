package testnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// toolsVariable set to 1 lets tests use the tools of test/tools. Building them takes
// minutes the first time, which no fast test should wait for without being told to.
const toolsVariable = "NODEKIT_TEST_TOOLS"

// WithTools reports whether tests may use the tools of test/tools, and build those that
// are missing.
func WithTools() bool { return os.Getenv(toolsVariable) == "1" }

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
