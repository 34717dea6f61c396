package soak

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCountBelow(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{"a/b/c", "d"} {
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name string
		dir  string
		deep bool
		want int64
	}{
		{"the folder", dir, false, 2},
		{"the tree", dir, true, 4},
		{"nothing", filepath.Join(dir, "none"), true, 0},
	}
	for _, tt := range tests {
		if got, err := countBelow(tt.dir, tt.deep); got != tt.want || err != nil {
			t.Errorf("%s has %d, %v; want %d", tt.name, got, err, tt.want)
		}
	}
	if got, err := countFolders(dir); got != 3 || err != nil { // itself, a and a/b
		t.Errorf("%d folders, %v; want 3", got, err)
	}
}

// TestReadProcess reads this process.
func TestReadProcess(t *testing.T) {
	c := Counts{}
	if err := readProcess(c, os.Getpid(), KubeletFiledes, KubeletMemory); err != nil {
		t.Fatal(err)
	}
	if err := readLines(c, os.Getpid(), "mountinfo", KubeletMounts); err != nil {
		t.Fatal(err)
	}
	for _, m := range []Measure{KubeletFiledes, KubeletMemory, KubeletMounts} {
		if c[m] <= 0 {
			t.Errorf("%s: %d", m, c[m])
		}
	}
}
