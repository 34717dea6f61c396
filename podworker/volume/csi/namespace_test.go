package csi

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// child is set in the process that has a mount namespace of its own.
const child = "NODEKIT_CSI_NAMESPACE"

// inNamespaceOfItsOwn keeps what the child mounts from the machine. Drivers serve on any
// thread, so that the namespace has to be that of the whole process.
func inNamespaceOfItsOwn() {
	if os.Getenv(child) == "" {
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "make mounts private:", err)
		os.Exit(1)
	}
}

// isolated runs the test that calls it in a process with a mount namespace of its own.
// It returns true there, and false here, where the test is over then.
func isolated(t *testing.T) bool {
	t.Helper()
	if os.Getenv(child) != "" {
		return true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return false
	case cmd.Process == nil && os.Getenv("REQUIRE_KERNEL") != "1":
		t.Skipf("there is no mount namespace (REQUIRE_KERNEL=1 makes this a failure): %v", err)
	}
	t.Fatalf("%v\n%s", err, out)
	return false
}
