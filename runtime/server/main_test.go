package server_test

import (
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/internal/readmetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestReadmeShowsTheExample(t *testing.T) { readmetest.ShowsExample(t) }
