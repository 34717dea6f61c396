package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests that boot guests run where NODEKIT_TEST_VM names their engines, such as
// "uml" or "uml qemu"; make test and make test-vm set it.
func engines(t *testing.T) []string {
	t.Helper()
	names := strings.Fields(os.Getenv("NODEKIT_TEST_VM"))
	if len(names) == 0 {
		t.Skip("NODEKIT_TEST_VM names no engine")
	}
	return names
}

// build builds a program without libraries, which is what runs in a guest.
func build(t *testing.T, pkg string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-o", program, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
	return program
}

// result is what a run of vm gave.
type result struct {
	stdout, stderr string
	status         int
}

// finish waits for a run.
func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, &stderr)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

func TestGuestRunsOneProgram(t *testing.T) {
	names := engines(t)
	vm, job := build(t, "."), build(t, "./testdata/job")
	for _, engine := range names {
		out := t.TempDir()
		for _, tt := range []struct {
			name string
			// flags of vm and arguments of the program.
			flags, args []string
			want        result
			// stderr is a part of what vm says.
			stderr string
		}{
			{name: "success", args: []string{"exit", "0"}},
			{name: "exit status", args: []string{"exit", "7"}, want: result{status: 7}},
			{
				name: "arguments", args: []string{"arguments", "two words", "", `q"uote`, "$HOME"},
				want: result{stdout: "\"two words\"\n\"\"\n\"q\\\"uote\"\n\"$HOME\"\n"},
			},
			{
				name: "files of the test's folder", args: []string{"read", "testdata/greeting"},
				want: result{stdout: "good morning\n"},
			},
			{
				name: "files of the host", flags: []string{"-file", "/there/it/is=testdata/greeting"},
				args: []string{"read", "/there/it/is"}, want: result{stdout: "good morning\n"},
			},
			{name: "files left", flags: []string{"-out", out}, args: []string{"leave", "something"}},
			{name: "panic of the kernel", args: []string{"crash"}, want: result{status: failed}, stderr: "sysrq"},
			{
				name: "time is up", flags: []string{"-timeout", "200ms"}, args: []string{"exit", "0"},
				want: result{status: failed}, stderr: "longer than 200ms",
			},
		} {
			t.Run(engine+"/"+tt.name, func(t *testing.T) {
				args := append(append([]string{"-engine", engine}, tt.flags...), job)
				got := finish(t, exec.Command(vm, append(args, tt.args...)...))
				if got.status != tt.want.status || got.stdout != tt.want.stdout || !strings.Contains(got.stderr, tt.stderr) {
					t.Errorf("got %+v, want %+v and %q on standard error", got, tt.want, tt.stderr)
				}
			})
		}
		left, err := os.ReadFile(filepath.Join(out, "folder", "file"))
		if err != nil || string(left) != "something" {
			t.Errorf("%s: the program left %q, %v; want something", engine, left, err)
		}
	}
}

func TestGuestHandsOnMuchOutputUnchanged(t *testing.T) {
	names := engines(t)
	vm, job := build(t, "."), build(t, "./testdata/job")
	want := finish(t, exec.Command(job, "talk"))
	for _, engine := range names {
		got := finish(t, exec.Command(vm, "-engine", engine, job, "talk"))
		if sha256.Sum256([]byte(got.stdout)) != sha256.Sum256([]byte(want.stdout)) {
			t.Errorf("%s: %d bytes came out, not the %d that the program wrote", engine, len(got.stdout), len(want.stdout))
		}
	}
}

// However vm ends, its guest ends with it, and the next run removes its folder.
func TestGuestEndsWithItsKeeper(t *testing.T) {
	names := engines(t)
	vm, job := build(t, "."), build(t, "./testdata/job")
	for _, engine := range names {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(engine+"/"+signal.String(), func(t *testing.T) {
				folder := t.TempDir()
				env := append(os.Environ(), "TMPDIR="+folder)
				cmd := exec.Command(vm, "-engine", engine, job, "hang")
				cmd.Env = env
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				if _, err := stdout.Read(make([]byte, 16)); err != nil {
					t.Errorf("the program said nothing: %v", err)
				}
				_ = cmd.Process.Signal(signal)
				_ = cmd.Wait()
				wantNoProcess(t, folder)
				again := exec.Command(vm, "-engine", engine, job, "exit", "0")
				again.Env = env
				finish(t, again)
				if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
					t.Errorf("folders left: %q", left)
				}
			})
		}
	}
}

// wantNoProcess waits until no process has word in its command line.
func wantNoProcess(t *testing.T, word string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var left []string
		files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, file := range files {
			if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), word) {
				left = append(left, file)
			}
		}
		if len(left) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("processes of the guest are left: %q", left)
		}
	}
}
