// Package importbudget measures what an import of each package of this module
// costs its user, and which way the packages point. Its test holds every
// package to a budget and to the directions of docs/architecture.md.
package importbudget

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// Graph holds the imports of every package that was loaded, tests left out.
type Graph struct {
	// Module is the path of the module that was loaded.
	Module   string
	packages map[string]pkg
}

// pkg is what `go list -json` says of one package.
type pkg struct {
	ImportPath string
	Imports    []string
	Standard   bool
}

// Load lists the packages of the module in dir with everything they import, for
// linux. It runs the go command and needs the module cache to be filled.
func Load(ctx context.Context, dir, module string) (*Graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-json=ImportPath,Imports,Standard", "./...")
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "GOOS=linux")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return nil, fmt.Errorf("list packages of %s: %w: %s", module, err, exit.Stderr)
		}
		return nil, fmt.Errorf("list packages of %s: %w", module, err)
	}
	return parse(strings.NewReader(string(out)), module)
}

// parse reads the stream of objects that `go list -json` prints.
func parse(r io.Reader, module string) (*Graph, error) {
	g := &Graph{Module: module, packages: map[string]pkg{}}
	for dec := json.NewDecoder(r); ; {
		var p pkg
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return g, nil
		case err != nil:
			return nil, fmt.Errorf("read the package list of %s: %w", module, err)
		}
		g.packages[p.ImportPath] = p
	}
}

// Own returns the packages of the module, sorted, relative to its root; the root
// itself is "".
func (g *Graph) Own() []string {
	var own []string
	for path := range g.packages {
		if rel, ok := g.rel(path); ok {
			own = append(own, rel)
		}
	}
	slices.Sort(own)
	return own
}

// Direct returns the packages that the package at rel imports itself, sorted.
func (g *Graph) Direct(rel string) []string {
	return slices.Sorted(slices.Values(g.packages[g.path(rel)].Imports))
}

// External returns the packages outside the module and the standard library that
// an import of the package at rel pulls in, sorted.
func (g *Graph) External(rel string) []string {
	var external []string
	for _, path := range g.closure(rel) {
		if _, own := g.rel(path); !own && !g.packages[path].Standard {
			external = append(external, path)
		}
	}
	return external
}

// Internal returns the other packages of the module that the package at rel
// pulls in, sorted, relative to the root.
func (g *Graph) Internal(rel string) []string {
	var internal []string
	for _, path := range g.closure(rel) {
		if other, own := g.rel(path); own && other != rel {
			internal = append(internal, other)
		}
	}
	return internal
}

func (g *Graph) rel(path string) (string, bool) {
	if path == g.Module {
		return "", true
	}
	return strings.CutPrefix(path, g.Module+"/")
}

func (g *Graph) path(rel string) string {
	return strings.TrimSuffix(g.Module+"/"+rel, "/")
}

func (g *Graph) closure(rel string) []string {
	start := g.path(rel)
	seen := map[string]bool{start: true}
	for queue := []string{start}; len(queue) > 0; queue = queue[1:] {
		for _, path := range g.packages[queue[0]].Imports {
			if _, known := g.packages[path]; known && !seen[path] {
				seen[path] = true
				queue = append(queue, path)
			}
		}
	}
	paths := make([]string, 0, len(seen))
	for path := range seen {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}
