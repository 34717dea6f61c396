package importbudget

import (
	"fmt"
	"slices"
	"strings"
)

// Rules say what a package may pull in.
type Rules struct {
	// Budgets is the largest number of packages outside the module and the
	// standard library, by path relative to the module's root.
	Budgets map[string]int
	// Parts are the top-level folders that must not import each other.
	Parts []string
	// Forbidden are import paths that only Free packages may import directly.
	Forbidden []string
	// Adapters may import what is forbidden to others: the paths, by the package
	// that exists to adapt them.
	Adapters map[string][]string
	// Free are folders outside all rules: programs, tests, tools.
	Free []string
}

// Check returns one sentence for each breach of the rules, sorted by package.
// A package of a part that users can import and that has no budget is a breach, so
// that none is forgotten.
func (r Rules) Check(g *Graph) []string {
	var breaches []string
	for _, rel := range g.Own() {
		if rel == "" || under(rel, r.Free) {
			continue
		}
		breaches = append(breaches, r.weight(g, rel)...)
		breaches = append(breaches, r.arrows(g, rel)...)
	}
	return breaches
}

func (r Rules) weight(g *Graph, rel string) []string {
	var breaches []string
	external := g.External(rel)
	if budget, ok := r.Budgets[rel]; !ok && under(rel, r.Parts) && !strings.Contains(rel, "/internal/") {
		breaches = append(breaches, fmt.Sprintf("%s: has no import budget; it pulls in %d packages", rel, len(external)))
	} else if ok && len(external) > budget {
		breaches = append(breaches, fmt.Sprintf("%s: pulls in %d packages, its budget is %d", rel, len(external), budget))
	}
	for _, path := range g.Direct(rel) {
		if under(path, r.Forbidden) && !under(path, r.Adapters[rel]) {
			breaches = append(breaches, fmt.Sprintf("%s: imports %s", rel, path))
		}
	}
	return breaches
}

func (r Rules) arrows(g *Graph, rel string) []string {
	var breaches []string
	part, _, _ := strings.Cut(rel, "/")
	for _, other := range g.Internal(rel) {
		otherPart, _, nested := strings.Cut(other, "/")
		switch {
		case part != otherPart && slices.Contains(r.Parts, otherPart):
			breaches = append(breaches, fmt.Sprintf("%s: imports its sibling %s", rel, other))
		case under(other, r.Free):
			breaches = append(breaches, fmt.Sprintf("%s: imports the program or test package %s", rel, other))
		case rel == part && nested && part == otherPart:
			breaches = append(breaches, fmt.Sprintf("%s: imports its own sub-package %s", rel, other))
		}
	}
	return breaches
}

// under reports whether path is one of the folders or lies below one.
func under(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool {
		return path == f || strings.HasPrefix(path, f+"/")
	})
}
