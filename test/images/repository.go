package images

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// repository is the folder of this repository: its programs, tools and scripts.
type repository string

// openRepository finds the repository around the working directory.
func openRepository(ctx context.Context) (repository, error) {
	file, err := output(ctx, ".", "go", "env", "GOMOD")
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	root := filepath.Dir(file)
	if file == "" || file == os.DevNull || !exists(filepath.Join(root, "hack/tool.sh")) {
		return "", errors.New("find the repository: the working directory is not in it")
	}
	return repository(root), nil
}

func (r repository) path(elem ...string) string {
	return filepath.Join(append([]string{string(r)}, elem...)...)
}

// tool returns the path of a tool of a nested module, which hack/tool.sh builds when it
// is missing.
func (r repository) tool(ctx context.Context, name, module string) (string, error) {
	return output(ctx, string(r), r.path("hack/tool.sh"), name, module)
}

// version returns the version of a dependency of a nested module.
func (r repository) version(ctx context.Context, dependency, module string) (string, error) {
	return output(ctx, r.path(module), "go", "list", "-m", "-f", "{{.Version}}", dependency)
}

// source returns the folder of a dependency's sources.
func (r repository) source(ctx context.Context, dependency, module string) (string, error) {
	return output(ctx, r.path(module), "go", "list", "-m", "-f", "{{.Dir}}", dependency)
}

// program compiles a static program of this repository to path.
func (r repository) program(ctx context.Context, pkg, path string) error {
	return r.build(ctx, ".", "./"+pkg, path)
}

// build compiles a static program, as a module of this repository sees it.
func (r repository) build(ctx context.Context, module, pkg, path string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", path, pkg)
	cmd.Dir = r.path(module)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return quietly(cmd)
}

// install installs Debian packages that are missing.
func (r repository) install(ctx context.Context, packages ...string) error {
	return quietly(exec.CommandContext(ctx, r.path("hack/install.sh"), packages...))
}

// output runs a program in a folder and returns what it prints, without the last line
// break.
func output(ctx context.Context, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(bytes.TrimSpace(out)), nil
}

// quietly runs a command whose output matters only when it fails; then the end of it is
// in the error.
func quietly(cmd *exec.Cmd) error {
	const limit = 4 << 10
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(out[max(0, len(out)-limit):]))
	}
	return nil
}
