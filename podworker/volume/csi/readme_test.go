package csi_test

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/readmetest"
)

func TestReadme(t *testing.T) { readmetest.ShowsExample(t) }
