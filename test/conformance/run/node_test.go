package run

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// TestProgramsOfTheRuntimeLieApartFromOurs: the run keeps its kubelet where it keeps those
// of a runtime that is not the distribution's.
func TestProgramsOfTheRuntimeLieApartFromOurs(t *testing.T) {
	r := testRunner(t, &fakeSuite{}, conformance.Ours, "a")
	withPrograms(t, r, "ours")
	r.cfg.Programs = r.buildDir()
	link := func(_ context.Context, dir string, names ...string) error {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, names[0]), nil, 0o600)
	}
	for range 2 { // The second run finds what the first has left.
		programs, err := runtimePrograms(t.Context(), "containerd2", r.dir, link)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(programs, "containerd")); err != nil {
			t.Errorf("the runtime is missing: %v", err)
		}
		if _, err := kubeletBinary(t.Context(), r.cfg); err != nil {
			t.Errorf("our kubelet is missing: %v", err)
		}
	}
}

func TestRunWithoutItsKubeletDoesNotBegin(t *testing.T) {
	cfg := Config{Kit: conformance.Kit{Kubelet: conformance.Ours}, Programs: t.TempDir()}
	if path, err := kubeletBinary(t.Context(), cfg); err == nil {
		t.Errorf("got %s, want an error", path)
	}
}

func TestUnifiedControlGroupsAreRefused(t *testing.T) {
	mount := t.TempDir()
	if err := checkHierarchies(mount); err != nil {
		t.Errorf("hierarchies of version 1: %v", err)
	}
	if err := os.WriteFile(filepath.Join(mount, "cgroup.controllers"), []byte("cpu memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := checkHierarchies(mount); !errors.Is(err, errUnified) {
		t.Errorf("version 2 alone: %v, want that it is refused", err)
	}
}
