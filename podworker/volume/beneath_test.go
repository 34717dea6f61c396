//go:build linux

package volume_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

func TestReadFile(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside+"/f", "secret")
	write(t, dir+"/a/f", "x")
	write(t, dir+"/big", strings.Repeat("x", 1<<20+1))
	link(t, "a/f", dir+"/inside")
	link(t, outside+"/f", dir+"/out")
	link(t, "../../../../../../../../etc/passwd", dir+"/up")
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, want, fails string }{
		{name: "a/f", want: "x"},
		{name: "inside", want: "x"},
		{name: "out", fails: "leads out of the volume"},
		{name: "up", fails: "leads out of the volume"},
		{name: "../" + filepath.Base(outside) + "/f", fails: "leads out of the volume"},
		{name: outside + "/f", fails: "leads out of the volume"},
		{name: "pipe", fails: "not a regular file"},
		{name: "a", fails: "not a regular file"},
		{name: "big", fails: "larger than 1048576 bytes"},
		{name: "none", fails: "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := volume.Mounter{}.ReadFile(dir, tt.name)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("error is %v, want %q", err, tt.fails)
				}
				return
			}
			if err != nil || string(got) != tt.want {
				t.Errorf("content is %q (%v), want %q", got, err, tt.want)
			}
		})
	}
	if _, err := (volume.Mounter{}).ReadFile(filepath.Join(dir, "nowhere"), "f"); !os.IsNotExist(err) {
		t.Errorf("error of a directory that is not there is %v", err)
	}
}
