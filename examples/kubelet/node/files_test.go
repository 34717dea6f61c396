package node

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// TestInstanceIsMadeOnce: the id is stable, and a damaged file is an error that says
// what to do.
func TestInstanceIsMadeOnce(t *testing.T) {
	root := t.TempDir()
	first, err := readInstance(root)
	if err != nil || !instanceID.MatchString(first) {
		t.Fatalf("first id is %q, %v", first, err)
	}
	if second, err := readInstance(root); err != nil || second != first {
		t.Errorf("second id is %q, %v; want %q", second, err, first)
	}
	other, err := readInstance(t.TempDir())
	if err != nil || other == first {
		t.Errorf("id of another directory is %q, %v", other, err)
	}
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 {
		t.Errorf("directory has %v, %v; want the id only", entries, err)
	}
	for name, content := range map[string]string{"empty": "", "cut": first[:20], "other": "hello"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(root, instanceFile)
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if id, err := readInstance(root); err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "restore it") {
				t.Errorf("id is %q, %v; want an error about the file", id, err)
			}
			if data, err := os.ReadFile(path); err != nil || string(data) != content {
				t.Errorf("file is now %q, %v; want it untouched", data, err)
			}
		})
	}
}

// TestRootIsLocked: a root directory has one agent, and is free when it has gone.
func TestRootIsLocked(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	lock, err := openRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(root); err != nil || info.Mode().Perm()&0o027 != 0 {
		t.Errorf("root directory is %v, %v; want no rights for others", info.Mode(), err)
	}
	if _, err := openRoot(root); err == nil || !strings.Contains(err.Error(), root) {
		t.Errorf("second lock: %v, want an error that names the directory", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := openRoot(root)
	if err != nil {
		t.Fatalf("lock after it was given back: %v", err)
	}
	again.Close()
}

// TestSocket: only the owner may connect, the rest of a dead process is replaced,
// that of a live one is not, nor is a file that is no socket.
func TestSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubelet.sock")
	first, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("socket is %v, %v; want mode 0600", info.Mode(), err)
	}
	if _, err := listenSocket(t.Context(), path); err == nil || !strings.Contains(err.Error(), "another program serves") {
		t.Errorf("listen beside a live server: %v, want an error", err)
	}
	if err := dialUnix(t.Context(), path); err != nil {
		t.Errorf("the live server was harmed: %v", err)
	}
	if err := first.(*socket).Listener.Close(); err != nil { // as the kernel does for a dead process
		t.Fatal(err)
	}
	second, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatalf("listen on a stale socket: %v", err)
	}
	if err := dialUnix(t.Context(), path); err != nil {
		t.Errorf("nobody serves: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 0 {
		t.Errorf("left over: %v, %v", entries, err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenSocket(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("listen on a file: %v, want an error", err)
	}
}

// dialUnix connects and hangs up.
func dialUnix(ctx context.Context, path string) error {
	c, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return err
	}
	return c.Close()
}

// TestMemory: what was adopted is known to the next process; directories that were
// there before the first one are foreign.
func TestMemory(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "pods", "before"), 0o750); err != nil {
		t.Fatal(err)
	}
	m, err := openMemory(root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readInstance(root); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "pods", "after"), 0o750); err != nil {
		t.Fatal(err)
	}
	for uid, manifest := range map[types.UID]string{"a": "m1", "b": "m2"} {
		if err := m.adopt(uid, manifest); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(m.drop("b"), m.drop("never")); err != nil {
		t.Fatal(err)
	}
	next, err := openMemory(root)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[types.UID]string{"a": "m1"}, next.adopted()); diff != "" {
		t.Errorf("adopted (-want +got):\n%s", diff)
	}
	if !next.foreign("before") || next.foreign("after") {
		t.Errorf("foreign: before %t, after %t; want true, false", next.foreign("before"), next.foreign("after"))
	}
	if err := next.drop("before"); err != nil || next.foreign("before") {
		t.Errorf("drop: %v, foreign %t", err, next.foreign("before"))
	}
	if err := os.WriteFile(next.path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openMemory(root); err == nil || !strings.Contains(err.Error(), next.path) {
		t.Errorf("damaged file: %v, want an error that names it", err)
	}
}

// TestWriteFileKeepsTheOldContentOnFailure: a directory that cannot be written to
// leaves the file as it was.
func TestWriteFileKeepsTheOldContentOnFailure(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := writeFile(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "d"), []byte("new")); err == nil {
		t.Error("a directory was replaced by a file")
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "old" {
		t.Errorf("file is %q, %v; want old", data, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("directory has %v, %v; want no temporary file", entries, err)
	}
}
