package podsync

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// TestOwnDir makes a directory with its mode, whatever the umask, and leaves one alone
// that is there.
func TestOwnDir(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	want := &podspec.Path{Kind: podspec.OwnDir, Path: path, Mode: 0o777}
	if err := (localDisk{}).make(want); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeDir|0o777 {
		t.Fatalf("made %v (%v), want rwxrwxrwx", info, err)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (localDisk{}).make(want); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made again it has %v (%v), want the mode its user gave it", info, err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("beside it are %v (%v)", left, err)
	}
}

func TestStoreReplaces(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, text := range []string{"one", "two"} {
		if err := (localDisk{}).store(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("file has %q (%v), want %q", got, err, text)
		}
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("beside it are %v (%v)", left, err)
	}
}
