package staticpods

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestPipeInPlaceOfAFile reads a pipe that took the place of a manifest since the
// look, and whose writer has it open and says nothing.
func TestPipeInPlaceOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "web.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0) // a FIFO opened both ways does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	done := make(chan error, 1)
	go func() {
		_, _, err := readFile(path)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("the pipe was read as a file")
		}
	case <-time.After(10 * time.Second):
		t.Error("the reader waits for the writer")
		_ = writer.Close()
		<-done
	}
}
