package main

import (
	"archive/tar"
	"bytes"
	"context"
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
)

// machine is one guest, from its packing to its end.
type machine struct {
	options
	base base
	// dir is the folder of this run.
	dir string
}

// job is what the guest is told to do.
type job struct {
	Args []string
	Env  []string
	// Dir is where the program starts.
	Dir string
}

// Places in the guest.
const (
	jobFile     = "/job.json"
	workFolder  = "/job"
	outFolder   = "/out"
	outVariable = "NODEKIT_VM_OUT"
	statusFile  = ".status"
)

// diskSize is the room for what a program leaves. The file is sparse.
const diskSize = 1 << 30

func (m *machine) initrd() string { return filepath.Join(m.dir, "initrd") }
func (m *machine) disk() string   { return filepath.Join(m.dir, "disk") }

// pack writes the initramfs, which is the base and this run's files one after the
// other, and the empty disk.
func (m *machine) pack(ctx context.Context) error {
	f, err := os.Create(m.initrd())
	if err != nil {
		return err
	}
	defer f.Close()
	common, err := os.Open(m.base.archive())
	if err != nil {
		return err
	}
	defer common.Close()
	if _, err := io.Copy(f, common); err != nil {
		return err
	}
	if err := m.packJob(ctx, newArchive(f)); err != nil {
		return err
	}
	disk, err := os.Create(m.disk())
	if err != nil {
		return err
	}
	return errors.Join(disk.Truncate(diskSize), disk.Close(), f.Close())
}

func (m *machine) packJob(ctx context.Context, a *archive) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := exec.LookPath(m.job[0])
	if err != nil {
		return err
	}
	a.file("/init", self)
	a.file(workFolder+"/program", program)
	// Where go test runs a test is where its data are.
	if _, err := os.Stat("testdata"); err == nil {
		a.tree(workFolder+"/testdata", "testdata")
	}
	for _, spec := range m.files {
		guest, host, err := hostFile(spec)
		if err != nil {
			return err
		}
		if info, err := os.Stat(host); err == nil && info.IsDir() {
			a.tree(guest, host)
			continue
		}
		a.file(guest, host)
		for _, lib := range libraries(ctx, host) {
			a.file(lib, lib)
		}
	}
	instructions, err := json.Marshal(job{
		Args: append([]string{workFolder + "/program"}, m.job[1:]...),
		Env:  m.environment(),
		Dir:  workFolder,
	})
	if err != nil {
		return err
	}
	a.bytes(jobFile, instructions)
	return a.close()
}

// environment is that of the program. What tests of this repository look at is
// handed down.
func (m *machine) environment() []string {
	env := []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TMPDIR=/tmp",
		"NODEKIT_VM=" + string(m.engine.kind), outVariable + "=" + outFolder,
	}
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); name == "REQUIRE_KERNEL" {
			env = append(env, e)
		}
	}
	for _, e := range m.env {
		if !strings.Contains(e, "=") {
			e += "=" + os.Getenv(e)
		}
		env = append(env, e)
	}
	return env
}

// boot runs the guest to its end and returns the exit status of the program in it.
func (m *machine) boot(ctx context.Context, stdout io.Writer) (int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, m.timeout, fmt.Errorf("the guest runs for longer than %v", m.timeout))
	defer cancel()
	var console bytes.Buffer
	command := m.command()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", command...)
	cmd.Args[0] = keeperName
	// Both are pipes, whatever stdout is: qemu would truncate a file.
	cmd.Stdout, cmd.Stderr = struct{ io.Writer }{stdout}, &console
	cmd.Env = append(os.Environ(), "TMPDIR="+memoryFolder(m.dir))
	if m.engine.kind == uml {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+m.base.shim())
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	runErr := cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if m.console != "" {
		if err := os.WriteFile(m.console, console.Bytes(), 0o644); err != nil {
			return 0, fmt.Errorf("keep the guest's console: %w", err)
		}
	}
	status, err := m.collect()
	switch {
	case err == nil:
		return status, nil
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case runErr != nil:
		err = errors.Join(err, fmt.Errorf("%s: %w", command[0], runErr))
	}
	return 0, fmt.Errorf("%w; the end of its console:\n%s", err, tail(console.Bytes(), 40))
}

// memoryFolder is where user-mode Linux keeps the guest's memory: a file system in
// memory where there is one, for the speed.
func memoryFolder(otherwise string) string {
	var fs syscall.Statfs_t
	const tmpfs = 0x01021994 // TMPFS_MAGIC of linux/magic.h
	if syscall.Statfs("/dev/shm", &fs) == nil && int64(fs.Type) == tmpfs {
		return "/dev/shm"
	}
	return otherwise
}

// collect takes the exit status and the files from the disk.
func (m *machine) collect() (int, error) {
	disk, err := os.Open(m.disk())
	if err != nil {
		return 0, err
	}
	defer disk.Close()
	files := tar.NewReader(disk)
	status, known := 0, false
	for {
		head, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, fmt.Errorf("read the guest's disk: %w", err)
		}
		if head.Name == statusFile {
			if _, err := fmt.Fscan(files, &status); err != nil {
				return 0, fmt.Errorf("read the exit status: %w", err)
			}
			known = true
			continue
		}
		if err := m.keep(head, files); err != nil {
			return 0, fmt.Errorf("bring %s out of the guest: %w", head.Name, err)
		}
	}
	if !known {
		return 0, errors.New("the guest gave no exit status")
	}
	return status, nil
}

// keep writes one file that the program left, never outside the folder.
func (m *machine) keep(head *tar.Header, content io.Reader) error {
	if m.out == "" {
		return nil
	}
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(m.out)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if head.Typeflag == tar.TypeDir {
		return root.MkdirAll(filepath.Clean(head.Name), 0o755)
	}
	f, err := root.OpenFile(head.Name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Close())
}

func tail(text []byte, lines int) []byte {
	all := bytes.Split(bytes.TrimRight(text, "\r\n"), []byte("\n"))
	return bytes.Join(all[max(0, len(all)-lines):], []byte("\n"))
}
