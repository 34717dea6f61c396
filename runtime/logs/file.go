package logs

import (
	"fmt"
	"path/filepath"
)

// File names the log of one container.
type File struct {
	// Root is a folder that containers have no influence on, such as the folder of all
	// pods' logs. Links on the way to it are followed.
	Root string
	// Path is the file below Root. No link on the way is followed, and none that leads
	// there.
	Path string
}

// String returns the whole path.
func (f File) String() string { return filepath.Join(f.Root, f.Path) }

func (f File) validate() error {
	if f.Root == "" || !filepath.IsLocal(f.Path) || filepath.Clean(f.Path) == "." {
		return fmt.Errorf("log file %q below %q: want a folder and a path within it", f.Path, f.Root)
	}
	return nil
}
