package images_test

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/readmetest"
)

// The code of each README is part of an Example, which is compiled and run.
func TestReadmesShowExamples(t *testing.T) {
	for _, dir := range []string{".", "gc", "pullrecord", "reference", "registryauth"} {
		t.Run(dir, func(t *testing.T) {
			t.Chdir(dir)
			readmetest.ShowsExample(t)
		})
	}
}
