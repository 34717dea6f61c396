package atomicwriter_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/nodekit-go/nodekit/podworker/volume/atomicwriter"
)

func Example() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	w := atomicwriter.Writer{Dir: dir}
	for _, level := range []string{"info", "debug", "debug"} {
		changed, err := w.Write(map[string]atomicwriter.File{
			"log/level": {Data: []byte(level), Mode: 0o644},
		})
		fmt.Println(changed, err)
	}

	link, err := os.Readlink(filepath.Join(dir, "log"))
	fmt.Println(link, err)
	level, err := os.ReadFile(filepath.Join(dir, "log", "level"))
	fmt.Println(string(level), err)
	// Output:
	// true <nil>
	// true <nil>
	// false <nil>
	// ..data/log <nil>
	// debug <nil>
}
