package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

func TestMain(m *testing.M) {
	if logs := os.Getenv(crashVariable); logs != "" {
		crash(logs)
	}
	os.Exit(m.Run())
}

// checkNothingLeft is called before anything is started. When the test has ended and
// its clusters are gone, it compares the machine with what it was.
func checkNothingLeft(t *testing.T) {
	t.Helper()
	before := traces(t)
	t.Cleanup(func() {
		if diff := cmp.Diff(before, traces(t)); diff != "" {
			t.Errorf("left on the machine (-before +after):\n%s", diff)
		}
	})
}

// traces lists the machine's interfaces and what is mounted or lies at the paths that
// node programs use. What belongs to other test nodes does not count.
func traces(t *testing.T) []string {
	t.Helper()
	var found []string
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	places := []string{"/var/lib/kubelet", "/var/log/pods", "/var/log/containers", "/opt/cni", "/etc/cni", "/proc/sys"}
	for line := range strings.Lines(string(mounts)) {
		path := strings.Fields(line)[1]
		if slices.ContainsFunc(places, func(place string) bool { return strings.HasPrefix(path, place) }) {
			found = append(found, "mount "+path)
		}
	}
	for _, place := range places[:len(places)-1] {
		files, err := filepath.Glob(place + "/*")
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range interfaces {
		found = append(found, "interface "+i.Name)
	}
	slices.Sort(found)
	return found
}

// checkGone fails the test when something of the environments is still there.
func checkGone(t *testing.T, environments []string) {
	t.Helper()
	for _, name := range environments {
		left, err := testnode.Leftovers(name)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string(nil), left); diff != "" {
			t.Errorf("left of %s (-want +got):\n%s", name, diff)
		}
	}
}

// crashVariable makes this test binary the program that starts a cluster and dies, and
// names the folder of its logs. runtimeVariable is the cluster's runtime.
const (
	crashVariable   = "CLUSTER_CRASH"
	runtimeVariable = "CLUSTER_CRASH_RUNTIME"
)

// crash starts a cluster, says what its parts are called and waits to be killed.
func crash(logs string) {
	node := cluster.NodeConfig{Runtime: cluster.Runtime(os.Getenv(runtimeVariable))}
	c, err := cluster.Start(context.Background(), cluster.Config{Name: "crash", Logs: logs, Nodes: 1, Node: node})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("cluster", strings.Join(c.Environments(), " "))
	select {}
}

func TestKilledHarnessLeavesNothing(t *testing.T) {
	clustertest.Require(t)
	checkNothingLeft(t)
	program, environments := startCrashing(t, cluster.Containerd)
	// While its program lives, the cluster is nobody else's to remove.
	if removed, err := testnode.Clean(t.Context(), testnode.KeptToo, environments[0]); err != nil || len(removed) > 0 {
		t.Fatalf("removed %v of a cluster in use, %v", removed, err)
	}
	kill(t, program)
	left, err := testnode.Leftovers(environments[0])
	if err != nil || len(left) < 5 {
		t.Fatalf("the control plane runs on without its program; got %q, %v", left, err)
	}
	clean(t, environments)
}

// startCrashing starts a program with a cluster of one node on the runtime, and returns
// what its parts are called.
func startCrashing(t *testing.T, runtime cluster.Runtime) (*exec.Cmd, []string) {
	t.Helper()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), crashVariable+"="+t.TempDir(), runtimeVariable+"="+string(runtime))
	out, err := program.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	names, ok := strings.CutPrefix(strings.TrimSpace(line), "cluster ")
	if err != nil || !ok {
		t.Fatalf("the program said %q, %v", line, err)
	}
	return program, strings.Fields(names)
}

func kill(t *testing.T, program *exec.Cmd) {
	t.Helper()
	if err := program.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := program.Wait(); err == nil {
		t.Fatal(errors.New("the program ended by itself"))
	}
}

// clean removes what a killed program left, which is all of the environments.
func clean(t *testing.T, environments []string) {
	t.Helper()
	removed, err := testnode.Clean(t.Context(), testnode.KeptStay, environments[0])
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(removed)
	slices.Sort(environments)
	if diff := cmp.Diff(environments, removed); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	checkGone(t, environments)
}
