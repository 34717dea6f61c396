//go:build linux

package osthread

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

const childEnv = "OSTHREAD_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		if err := child(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leakcheck.Main(m)
}

// child calls Do from the main goroutine, whose thread is then the one at hand.
func child() error {
	for range 100 {
		err := Do(func() error {
			if unix.Gettid() == unix.Getpid() {
				return errors.New("f runs on the main thread")
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestDoIsNeverOnTheMainThread(t *testing.T) {
	for _, procs := range []string{"1", "2", "4"} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"=1", "GOMAXPROCS="+procs)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("GOMAXPROCS=%s: %v\n%s", procs, err, out)
		}
	}
}

func TestThreadEndsWithDo(t *testing.T) {
	var thread int
	want := errors.New("own")
	if err := Do(func() error { thread = unix.Gettid(); return want }); !errors.Is(err, want) {
		t.Errorf("error is %v, want %v", err, want)
	}
	path := filepath.Join("/proc/self/task", strconv.Itoa(thread))
	for deadline := time.Now().Add(time.Minute); ; pause() {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return
		} else if time.Now().After(deadline) {
			t.Fatalf("thread %d is there a minute after Do, %v", thread, err)
		}
	}
}

func pause() { <-time.After(time.Millisecond) }
