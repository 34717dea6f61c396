// Package outside shows that a module that is not ours can import each public
// package by itself: from a module with one requirement, without help of our own
// go.mod, and without what our other packages need.
package outside

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const nodekit = "github.com/nodekit-go/nodekit"

// parts are packages that must be there: a test that finds none shows nothing.
var parts = []string{
	"allocatable", "allocatable/config", "cni", "podworker", "podworker/podsync", "probes", "probes/grpc", "proxier",
	"proxier/config", "proxier/nftables", "proxier/source", "runtime", "runtime/images", "runtime/logs", "runtime/runtimetest",
	"staticpods", "examples/kubelet/node", "examples/kube-proxy/proxy",
}

func TestEachPublicPackageAlone(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, pkg := range publicPackages(t, root) {
		name := strings.TrimPrefix(pkg, nodekit+"/")
		found[name] = true
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeModule(t, dir, root, pkg)
			// The program is compiled, not linked: linking shows nothing more.
			if out, err := goCommand(t.Context(), dir, "vet", "./..."); err != nil {
				t.Errorf("a module outside cannot import it: %v\n%s", err, out)
			}
		})
	}
	for _, part := range parts {
		if !found[part] {
			t.Errorf("there is no public package %s; found %v", part, found)
		}
	}
}

func TestInternalPackageStaysInside(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeModule(t, dir, root, nodekit+"/internal/importbudget")
	out, err := goCommand(t.Context(), dir, "vet", "./...")
	if err == nil || !strings.Contains(string(out), "use of internal package") {
		t.Errorf("importing an internal package: %v\n%s", err, out)
	}
}

// publicPackages lists the packages that users may import.
func publicPackages(t *testing.T, root string) []string {
	t.Helper()
	out, err := goCommand(t.Context(), root, "list", "-f", "{{if ne .Name \"main\"}}{{.ImportPath}}{{end}}", "./...")
	if err != nil {
		t.Fatalf("list packages: %v\n%s", err, out)
	}
	var public []string
	for line := range strings.Lines(string(out)) {
		pkg := strings.TrimSpace(line)
		inside := strings.TrimPrefix(pkg, nodekit+"/")
		if pkg != "" && !strings.HasPrefix(inside, "test/") && !strings.HasPrefix(inside, "hack/") &&
			!strings.Contains("/"+inside+"/", "/internal/") {
			public = append(public, pkg)
		}
	}
	return public
}

// writeModule writes a module with one requirement and one program that imports
// one package. The checksums of what nodekit needs are nodekit's.
func writeModule(t *testing.T, dir, root, pkg string) {
	t.Helper()
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"go.mod": fmt.Sprintf("module example.com/user\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %[1]s => %s\n", nodekit, root),
		"go.sum": string(sums),
		"main.go": fmt.Sprintf("// Command user imports one package.\npackage main\n\nimport _ %q\n\nfunc main() {}\n",
			pkg),
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// goCommand runs the go command without network: what nodekit's own build
// downloaded must be enough. It may complete a go.mod, save that of nodekit.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	mod := "mod"
	if args[0] == "list" {
		mod = "readonly"
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod="+mod, "GOPROXY=off", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	return bytes.TrimSpace(out), err
}
