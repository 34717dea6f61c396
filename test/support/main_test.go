package support_test

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
)

// inNamespace tells this program that its table of mounts is its own.
const inNamespace = "SUPPORT_TEST_NAMESPACE"

// TestMain runs the tests in a mount namespace of their own, if root runs them: volumes
// are mounted by goroutines of a Manager, so that a namespace for one thread would not do.
func TestMain(m *testing.M) {
	if os.Getuid() != 0 || os.Getenv(inNamespace) != "" {
		leakcheck.Main(m)
		return
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inNamespace+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The child is to end with the thread that starts it, so that one must not end before.
	runtime.LockOSThread()
	// Go makes all mounts of the new namespace private.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil { // there are no such namespaces
		leakcheck.Main(m)
		return
	}
	if err := cmd.Wait(); err != nil {
		os.Exit(max(1, cmd.ProcessState.ExitCode()))
	}
}

// needsMounts skips a test that mounts, where that is not possible.
func needsMounts(tb testing.TB) {
	tb.Helper()
	switch {
	case os.Getenv(inNamespace) != "":
	case os.Getenv("REQUIRE_KERNEL") == "1":
		tb.Fatal("there is no mount namespace")
	default:
		tb.Skip("there is no mount namespace (REQUIRE_KERNEL=1 makes this a failure)")
	}
}
