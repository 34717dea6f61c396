package leakcheck

import (
	"os"
	"strings"
	"testing"
)

func TestGoroutineThatStaysIsALeak(t *testing.T) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		<-stop
	}()
	if code := report(files(), interval); code != 1 {
		t.Errorf("exit code with a leak is %d, want 1", code)
	}
	left := goroutines()
	if len(left) != 1 || !strings.Contains(left[0], "TestGoroutineThatStaysIsALeak") {
		t.Errorf("leaked goroutines = %q, want the one of this test", left)
	}
	close(stop)
	<-done
	if code := report(files(), patience); code != 0 {
		t.Errorf("exit code without a leak is %d, want 0", code)
	}
	if left := wait(patience, goroutines); len(left) != 0 {
		t.Errorf("leaked goroutines after the end = %q, want none", left)
	}
}

func TestOpenFileIsALeak(t *testing.T) {
	before := files()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if left := newFiles(before); len(left) != 2 || !strings.Contains(left[0], "pipe:") {
		t.Errorf("leaked files = %q, want the two ends of a pipe", left)
	}
	for _, f := range []*os.File{r, w} {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := newFiles(before); len(left) != 0 {
		t.Errorf("leaked files after closing = %q, want none", left)
	}
}

func TestLeaked(t *testing.T) {
	const dump = `goroutine 1 [chan receive]:
testing.tRunner(0x1, 0x2)

goroutine 7 [select]:
example.org/agent.(*Loop).run(0x3)

goroutine 9 [syscall]:
os/signal.signal_recv()
`
	left := leaked(dump)
	if len(left) != 1 || !strings.HasPrefix(left[0], "goroutine 7 ") {
		t.Errorf("leaked = %q, want only goroutine 7", left)
	}
}
