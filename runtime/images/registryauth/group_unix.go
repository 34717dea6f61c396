//go:build unix

package registryauth

import (
	"os/exec"
	"syscall"
)

// killGroup lets a plugin be killed together with the processes it made.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
