//go:build !linux

package cgroupstat

import "os"

// page is of no use here.
type page struct{}

// read returns the content of a file.
func (*page) read(name string) ([]byte, error) { return os.ReadFile(name) }
