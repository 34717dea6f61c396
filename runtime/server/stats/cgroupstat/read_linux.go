package cgroupstat

import (
	"os"
	"syscall"
)

// page has room for nearly all files of cgroupfs. One is used for all files of a group, so that
// reading thousands of them at a time makes little garbage.
type page [4096]byte

// read returns the content of a file, which holds until the next one is read. It makes three
// system calls.
func (p *page) read(name string) ([]byte, error) {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: gone(err)}
	}
	n, err := syscall.Read(fd, p[:])
	_ = syscall.Close(fd) // nothing was written
	switch {
	case err != nil:
		return nil, &os.PathError{Op: "read", Path: name, Err: gone(err)}
	case n < len(p):
		return p[:n], nil
	}
	return readAll(name)
}
