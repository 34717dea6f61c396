package images

import (
	"context"
	"fmt"
	"os"
	goruntime "runtime"
	"strings"
)

// recipeVersion changes when the code that makes the images changes what is in them
// although nothing that a recipe lists does.
const recipeVersion = 4

// recipe is everything that decides what is in an archive, a line each, except the
// versions of Debian packages.
type recipe string

// digest names the archive in the cache. Sixteen digits are plenty for the few recipes
// that a cache ever sees.
func (r recipe) digest() string { return digestOf([]byte(r))[:16] }

// recipe returns the recipe of the set's archive.
func (s set) recipe(ctx context.Context, repo repository) (recipe, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d %s\n", s.name, recipeVersion, goruntime.GOARCH)
	for _, i := range s.images {
		fmt.Fprintf(&b, "image %s %v %+v\n", i.ref, i.layers, i.config)
	}
	for _, p := range s.packages {
		fmt.Fprintf(&b, "package %s\n", p)
	}
	for _, t := range s.tools {
		version, err := repo.version(ctx, t.dependency, t.module)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "tool %s %s\n", t.name, version)
	}
	for _, program := range s.programs {
		source, err := os.ReadFile(repo.path(program, "main.go"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "program %s %s\n", program, digestOf(source))
	}
	for _, file := range s.files {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "file %s %s\n", file, digestOf(content))
	}
	return recipe(b.String()), nil
}
