//go:build linux

package volume_test

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

func hostPath(path string, t corev1.HostPathType) corev1.Volume {
	return source("host", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path, Type: &t}})
}

func TestHostPath(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write(t, at("file"), "x")
	write(t, at("sub/file"), "x")
	link(t, "sub", at("link"))
	link(t, "nowhere", at("dangling"))
	l, err := net.Listen("unix", at("socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const block = "/dev/does-not-exist"
	tests := []struct {
		name, path string
		typ        corev1.HostPathType
		made       fs.FileMode // what is there afterwards; 0: not looked at
		fails      string
	}{
		{name: "unset", path: at("none"), typ: corev1.HostPathUnset},
		{name: "directory", path: at("sub"), typ: corev1.HostPathDirectory},
		{name: "link to a directory", path: at("link"), typ: corev1.HostPathDirectory},
		{name: "no directory", path: at("none"), typ: corev1.HostPathDirectory, fails: at("none") + " is not a directory: "},
		{name: "a file", path: at("file"), typ: corev1.HostPathDirectory, fails: at("file") + " is not a directory"},
		{name: "directory made", path: at("new/deep"), typ: corev1.HostPathDirectoryOrCreate, made: fs.ModeDir | 0o755},
		{name: "directory there", path: at("sub"), typ: corev1.HostPathDirectoryOrCreate},
		{name: "a file in the way", path: at("file"), typ: corev1.HostPathDirectoryOrCreate, fails: at("file") + " is not a directory"},
		{name: "a file in the path", path: at("file/x"), typ: corev1.HostPathDirectoryOrCreate, fails: "not a directory"},
		{name: "file", path: at("file"), typ: corev1.HostPathFile},
		{name: "no file", path: at("none"), typ: corev1.HostPathFile, fails: at("none") + " is not a file: "},
		{name: "a directory", path: at("sub"), typ: corev1.HostPathFile, fails: at("sub") + " is not a file"},
		{name: "file made", path: at("made"), typ: corev1.HostPathFileOrCreate, made: 0o644},
		{name: "file there", path: at("sub/file"), typ: corev1.HostPathFileOrCreate},
		{name: "no directory for it", path: at("none/file"), typ: corev1.HostPathFileOrCreate, fails: "file or directory"},
		{name: "a directory in the way", path: at("sub"), typ: corev1.HostPathFileOrCreate, fails: at("sub") + " is not a file"},
		{name: "socket", path: at("socket"), typ: corev1.HostPathSocket},
		{name: "no socket", path: at("file"), typ: corev1.HostPathSocket, fails: at("file") + " is not a socket"},
		{name: "character device", path: "/dev/null", typ: corev1.HostPathCharDev},
		{name: "no character device", path: at("file"), typ: corev1.HostPathCharDev, fails: at("file") + " is not a character device"},
		{name: "no block device", path: "/dev/null", typ: corev1.HostPathBlockDev, fails: "/dev/null is not a block device"},
		{name: "nothing", path: block, typ: corev1.HostPathBlockDev, fails: block + " is not a block device"},
		{name: "unknown type", path: at("sub"), typ: "Pipe", fails: `type "Pipe" is not known`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newManager(t, volume.Config{})
			p := pod("1", hostPath(tt.path, tt.typ))
			if tt.fails != "" {
				err := attempt(t, m, p)
				contains(t, err, "hostPath type check failed: ")
				contains(t, err, tt.fails)
				return
			}
			if got := setUp(t, m, p)["host"]; got != tt.path {
				t.Errorf("the volume is at %q, want %q", got, tt.path)
			}
			if err := m.TearDown(t.Context(), "1"); err != nil {
				t.Error(err)
			}
			if tt.made == 0 {
				return
			}
			if info, err := os.Stat(tt.path); err != nil || info.Mode() != tt.made {
				t.Errorf("%s is %v (%v), want %v, also after the pod", tt.path, info, err, tt.made)
			}
		})
	}
}

// TestKernelBlockDevice needs a device, which root can make.
func TestKernelBlockDevice(t *testing.T) {
	needsMounts(t)
	device := filepath.Join(t.TempDir(), "disk")
	if err := makeBlockDevice(device); err != nil {
		t.Fatal(err)
	}
	m := newManager(t, volume.Config{})
	if got := setUp(t, m, pod("1", hostPath(device, corev1.HostPathBlockDev)))["host"]; got != device {
		t.Errorf("the volume is at %q, want %q", got, device)
	}
	contains(t, attempt(t, m, pod("2", hostPath(device, corev1.HostPathCharDev))), device+" is not a character device")
}
