//go:build linux

package volume_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/podworker/volume"
)

func Example() {
	dir, err := os.MkdirTemp("", "volume")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "config")); err != nil {
		fmt.Println(err)
		return
	}
	var m volume.Mounter
	_, err = m.ReadFile(dir, "config")
	fmt.Println(err)
	// Output:
	// openat2 config: the path leads out of the volume
}
