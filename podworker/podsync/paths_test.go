package podsync

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// TestOwnDir makes a directory with its mode and group, whatever the umask, and leaves
// one alone that is there.
func TestOwnDir(t *testing.T) {
	group := int64(os.Getgid())
	if os.Geteuid() == 0 {
		group = 4321
	}
	path := filepath.Join(t.TempDir(), "a", "b")
	want := &podspec.Path{Kind: podspec.OwnDir, Path: path, Mode: 0o777, Group: &group}
	if err := (localDisk{}).make(want); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if info.Mode() != fs.ModeDir|fs.ModeSetgid|0o777 || !ok || int64(stat.Gid) != group {
		t.Errorf("made %s of group %d, want rwxrwsrwx of %d", info.Mode(), stat.Gid, group)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (localDisk{}).make(want); err != nil {
		t.Fatal(err)
	}
	if info, err = os.Stat(path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("made again it has %s (%v), want the mode its user gave it", info.Mode(), err)
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
