//go:build !linux

package cgroupstat

// page is of no use here.
type page struct{}

// read returns the content of a file.
func (*page) read(name string) ([]byte, error) { return readAll(name) }
