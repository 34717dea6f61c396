package testnode

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCleanRemovesOnlyUnusedNodes(t *testing.T) {
	tests := []struct {
		name string
		kept Kept
		only []string
		want []string // What is left.
	}{
		{"kept nodes stay", KeptStay, nil, []string{"kept-1", "kept-1-node0", "kept-10", "used"}},
		{"kept nodes too", KeptToo, nil, []string{"used"}},
		{"by name, with the parts", KeptToo, []string{"kept-1"}, []string{"kept-10", "no-lock-yet", "stale", "used"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := filepath.Join(t.TempDir(), "base")
			used, lock, err := claim(base, "used")
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			stale, staleLock, err := claim(base, "stale")
			if err != nil {
				t.Fatal(err)
			}
			staleLock.Close()
			writeFile(t, filepath.Join(base, "kept-1", keepFile))
			writeFile(t, filepath.Join(base, "kept-1-node0", keepFile))
			writeFile(t, filepath.Join(base, "kept-10", keepFile))
			writeFile(t, filepath.Join(base, "no-lock-yet", "file"))
			if _, err := clean(t.Context(), base, tt.kept, tt.only); err != nil {
				t.Fatal(err)
			}
			var left []string
			entries, err := os.ReadDir(base)
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range entries {
				name := entry.Name()
				switch name {
				case used.name:
					name = "used"
				case stale.name:
					name = "stale"
				}
				left = append(left, name)
			}
			if diff := cmp.Diff(tt.want, left); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCleanWithoutAnyNode(t *testing.T) {
	names, err := clean(t.Context(), filepath.Join(t.TempDir(), "none"), KeptToo, nil)
	if err != nil || names != nil {
		t.Errorf("got %v, %v", names, err)
	}
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
