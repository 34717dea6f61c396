//go:build linux

package cgroups_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
)

// What a process of this test's own binary does, instead of running tests: it goes
// into the groups named by the one variable, then does what the other says.
const (
	groupsVariable = "NODEKIT_TEST_GROUPS"
	taskVariable   = "NODEKIT_TEST_TASK"
)

// join returns a process that runs in a child of a group in every hierarchy, as that
// of a container does, and there does a task.
func join(t *testing.T, mounts []cgroups.Mount, group, task string) *exec.Cmd {
	t.Helper()
	var dirs []string
	for _, m := range mounts {
		dir := filepath.Join(m.Path, group)
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		child := filepath.Join(dir, "c1")
		if err := os.MkdirAll(child, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} { // v1 starts without any
			if raw, err := os.ReadFile(filepath.Join(dir, file)); err == nil && !m.V2 {
				if err := os.WriteFile(filepath.Join(child, file), raw, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		dirs = append(dirs, child)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), groupsVariable+"="+strings.Join(dirs, ":"), taskVariable+"="+task)
	return cmd
}

// perform does a task and returns the exit status.
func perform(task string) int {
	for dir := range strings.SplitSeq(os.Getenv(groupsVariable), ":") {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0o600); err != nil {
			fmt.Fprintln(os.Stdout, err)
			return 1
		}
	}
	fmt.Fprintln(os.Stdout, "in")
	what, rest, _ := strings.Cut(task, " ")
	n, _ := strconv.Atoi(rest)
	switch what {
	case "burn":
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			n++
		}
	case "eat", "hold":
		memory := make([]byte, n<<20)
		for i := 0; i < len(memory); i += 4096 {
			memory[i] = 1
		}
		fmt.Fprintln(os.Stdout, "ate", len(memory))
		if what == "hold" {
			waitForSignal()
		}
	case "spawn":
		return spawn(n)
	}
	return 0
}

// waitForSignal waits to be told to end; being killed does, too.
func waitForSignal() {
	told := make(chan os.Signal, 1)
	signal.Notify(told, os.Interrupt)
	<-told
}

// spawn runs some sleeping processes at once.
func spawn(n int) int {
	var children []*exec.Cmd
	defer func() {
		for _, c := range children {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for range n {
		c := exec.Command("/bin/sh", "-c", "read x")
		in, err := c.StdinPipe()
		if err == nil {
			defer in.Close()
			err = c.Start()
		}
		if err != nil {
			fmt.Fprintln(os.Stdout, err)
			return 1
		}
		children = append(children, c)
	}
	return 0
}
