package proxier_test

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/readmetest"
)

func TestReadmeShowsTheExample(t *testing.T) { readmetest.ShowsExample(t) }
