package cni

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// killAgent runs an agent, kills it a while after it is at work, and fails the test if
// it ended by itself. In is what the command is started in; the second argument is the
// directory of the state.
func killAgent(t *testing.T, after time.Duration, in func(func() error) error, args ...string) {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "CNI_TEST_AGENT="+strings.Join(args, " "))
	cmd.Stderr = &stderr
	if err := in(cmd.Start); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); !atWork(t, args[1]) && time.Since(begin) < time.Minute; {
		pause(t.Context(), time.Millisecond)
	}
	pause(t.Context(), after)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || cmd.ProcessState.Exited() {
		t.Fatalf("the agent ended by itself: %v\n%s", err, &stderr)
	}
}

// atWork reports whether there is a record. A directory that a test uses again has none
// when the next agent starts.
func atWork(t *testing.T, stateDir string) bool {
	t.Helper()
	names, err := newFolder(stateDir, 0).Names()
	if err != nil {
		t.Fatal(err)
	}
	return len(names) > 0
}

func here(f func() error) error { return f() }

// TestKilledAgent kills an agent with plugins that take something late: what is
// still at work after its death must not be overtaken by the clean-up.
func TestKilledAgent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	p, v := setup(t, "stub-a", "stub-c")
	held := t.TempDir()
	script := "#!/bin/sh\ncat >/dev/null\nwhat=" + held + "/$CNI_CONTAINERID\ncase $CNI_COMMAND in\n" +
		"ADD) sleep 0.1; : >$what; echo '{\"cniVersion\":\"1.0.0\"}' ;;\nDEL) rm -f $what ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(p.Dir(), "stub-b"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	net := t.TempDir()
	write(t, filepath.Join(net, "10-pods.conflist"), three("1.0.0"))
	n := mustParse(t, three("1.0.0"))
	found := 0
	for range 12 {
		after := rand.N(400 * time.Millisecond)
		killAgent(t, after, here, p.Dir(), v.disk.(folder).dir, net, "c1=vm:1", "c2=vm:2", "c3=vm:3")
		removed, err := v.GC(t.Context(), n, keep())
		if err != nil {
			t.Fatalf("killed after %s: %v", after, err)
		}
		found += len(removed)
		wantClean(t, v, p)
		pause(t.Context(), 150*time.Millisecond) // what a plugin outlives its agent by
		late, err := os.ReadDir(held)
		if err != nil || len(late) > 0 {
			t.Fatalf("killed after %s: %v taken after the clean-up, %v", after, late, err)
		}
	}
	if found == 0 {
		t.Error("no kill found an attachment: the test shows nothing")
	}
}

// TestPluginLeavesAProcessBehind has a plugin that starts a daemon, which inherits
// the lock and the output.
func TestPluginLeavesAProcessBehind(t *testing.T) {
	p, v := setup(t, "stub-a")
	pid := filepath.Join(t.TempDir(), "pid")
	script := "#!/bin/sh\n[ $CNI_COMMAND = ADD ] && { sleep 1000 & echo $! >" + pid + "; echo '{\"cniVersion\":\"1.0.0\"}'; }\nexit 0\n"
	if err := os.WriteFile(filepath.Join(p.Dir(), "daemon"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	n := mustParse(t, conf("daemon"))
	a := Attachment{ContainerID: "c1", IfName: "eth0"}
	if _, err := v.Add(t.Context(), n, a); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := v.Del(t.Context(), n, a); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Minute {
		t.Errorf("DEL took %s: it waited for the daemon", took)
	}
	data, err := os.ReadFile(pid)
	if err != nil {
		t.Fatal(err)
	}
	var n1 int
	if _, err := fmt.Sscan(string(data), &n1); err != nil {
		t.Fatal(err)
	}
	proc, err := os.FindProcess(n1)
	if err == nil {
		err = proc.Kill()
	}
	if err != nil {
		t.Errorf("the daemon is gone: %v", err)
	}
}
