package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// initGuest is the guest's first process. It never returns: when it is done it
// turns the machine off.
func initGuest() {
	if err := live(); err != nil {
		fmt.Fprintln(os.Stderr, "vm: guest:", err)
	}
	unix.Sync()
	how := unix.LINUX_REBOOT_CMD_RESTART // which ends qemu, told not to reboot
	if isUML() {
		how = unix.LINUX_REBOOT_CMD_POWER_OFF
	}
	fmt.Fprintln(os.Stderr, "vm: guest: turn off:", unix.Reboot(how))
	select {}
}

func live() error {
	if err := leaveInitramfs(); err != nil {
		return err
	}
	if err := mountAll(); err != nil {
		return err
	}
	content, err := os.ReadFile(jobFile)
	if err != nil {
		return err
	}
	var j job
	if err := json.Unmarshal(content, &j); err != nil {
		return fmt.Errorf("read %s: %w", jobFile, err)
	}
	loadModules()
	if out, err := exec.Command("/sbin/ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("bring lo up: %w: %s", err, out)
	}
	output, err := openOutput()
	if err != nil {
		return err
	}
	status, err := j.run(output)
	if err != nil {
		return err
	}
	if err := output.Close(); err != nil {
		return fmt.Errorf("close the output: %w", err)
	}
	return leave(status)
}

// leaveInitramfs puts a bind mount of the root file system over it: pivot_root, and
// so every container runtime, refuses to work in the initramfs itself.
func leaveInitramfs() error {
	const root = "/newroot"
	err := os.MkdirAll(root, 0o755)
	if err == nil {
		err = unix.Mount("/", root, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = os.Chdir(root)
	}
	if err == nil {
		err = unix.Mount(root, "/", "", unix.MS_MOVE, "")
	}
	if err == nil {
		err = unix.Chroot(".")
	}
	if err != nil {
		return fmt.Errorf("leave the initramfs: %w", err)
	}
	return os.Chdir("/")
}

func mountAll() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"},
		{"sysfs", "/sys"},
		{"devtmpfs", "/dev"},
		{"devpts", "/dev/pts"},
		{"tmpfs", "/dev/shm"},
		{"mqueue", "/dev/mqueue"},
		{"tmpfs", "/tmp"},
		{"tmpfs", "/run"},
		{"tmpfs", outFolder},
		{"cgroup2", "/sys/fs/cgroup"},
		{"bpf", "/sys/fs/bpf"},
	} {
		if err := os.MkdirAll(m.at, 0o755); err != nil {
			return err
		}
		err := unix.Mount(m.kind, m.at, m.kind, 0, "")
		optional := m.kind == "bpf" || m.kind == "mqueue"
		if err != nil && !optional {
			return fmt.Errorf("mount %s at %s: %w", m.kind, m.at, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, "/dev/"+name); err != nil && !os.IsExist(err) {
			return err
		}
	}
	return delegateControllers("/sys/fs/cgroup")
}

// delegateControllers lets the children of a cgroup use every controller that it
// has.
func delegateControllers(cgroup string) error {
	names, err := os.ReadFile(filepath.Join(cgroup, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(names)) {
		control := filepath.Join(cgroup, "cgroup.subtree_control")
		if err := os.WriteFile(control, []byte("+"+name), 0); err != nil {
			return fmt.Errorf("delegate the controller %s: %w", name, err)
		}
	}
	return nil
}

// loadModules loads what nothing else asks for: most modules the kernel loads
// itself when somebody uses them. A kernel may have them built in or lack them.
func loadModules() {
	k := qemu
	if isUML() {
		k = uml
	}
	for _, name := range wanted[k] {
		out, err := exec.Command("/sbin/modprobe", name).CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "vm: guest: modprobe %s: %v: %s\n", name, err, out)
		}
	}
}

func isUML() bool {
	cpu, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(cpu, []byte(umlCPUName))
}

// openOutput opens the device that takes the program's output.
func openOutput() (*os.File, error) {
	if isUML() {
		f, err := os.OpenFile(umlOutput, os.O_WRONLY|unix.O_NOCTTY, 0)
		if err != nil {
			return nil, err
		}
		return f, makeRaw(f)
	}
	port, err := virtioPort(qemuPort)
	if err != nil {
		return nil, err
	}
	return os.OpenFile(port, os.O_WRONLY, 0)
}

// makeRaw lets bytes pass a terminal device unchanged.
func makeRaw(f *os.File) error {
	termios, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", f.Name(), err)
	}
	termios.Oflag &^= unix.OPOST
	termios.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG | unix.IEXTEN
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, termios)
}

// virtioPort returns the device of a named port, which appears soon after its
// driver.
func virtioPort(name string) (string, error) {
	for range 100 {
		files, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return "", err
		}
		for _, file := range files {
			if have, err := os.ReadFile(file); err == nil && strings.TrimSpace(string(have)) == name {
				return filepath.Join("/dev", filepath.Base(filepath.Dir(file))), nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "", fmt.Errorf("no virtio port %q", name)
}

// run runs the program and returns its exit status as a shell has it.
func (j job) run(output io.Writer) (int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = j.Env, j.Dir, w, w
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start the program: %w", err)
	}
	w.Close()
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(output, r)
		copied <- err
	}()
	status, err := reap(cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	select {
	case err := <-copied:
		if err != nil {
			return 0, fmt.Errorf("hand on the output: %w", err)
		}
	case <-time.After(2 * time.Second): // what the program left behind still has the pipe
	}
	return status, nil
}

// reap waits for one process and meanwhile for every orphan, which is the first
// process's duty.
func reap(pid int) (int, error) {
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the program: %w", err)
		case got != pid:
		case ws.Signaled():
			return 128 + int(ws.Signal()), nil
		default:
			return ws.ExitStatus(), nil
		}
	}
}

// leave writes the exit status and the files that the program left to the disk.
func leave(status int) error {
	device := qemuDisk
	if isUML() {
		device = umlDisk
	}
	disk, err := os.OpenFile(device, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	files := tar.NewWriter(disk)
	if err := files.AddFS(os.DirFS(outFolder)); err != nil {
		return fmt.Errorf("bring files out: %w", err)
	}
	// Last: a status on the disk says that all the files are there, too.
	text := fmt.Sprintln(status)
	if err := files.WriteHeader(&tar.Header{Name: statusFile, Mode: 0o644, Size: int64(len(text))}); err != nil {
		return err
	}
	if _, err := io.WriteString(files, text); err != nil {
		return err
	}
	if err := files.Close(); err != nil {
		return err
	}
	if err := disk.Sync(); err != nil {
		return err
	}
	return disk.Close()
}
