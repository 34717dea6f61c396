package testnode

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPeerIsWhoListens(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if pid, err := peer(t.Context(), socket); pid != os.Getpid() || err != nil {
		t.Errorf("peer = %d, %v; we are %d", pid, err, os.Getpid())
	}
	if pid, err := peer(t.Context(), socket+"-missing"); err == nil {
		t.Errorf("process %d listens at a socket that is not there", pid)
	}
}

// TestProcessesOfAnAdoptedNode holds that in namespaces of somebody else only the
// programs of the node are the node's.
func TestProcessesOfAnAdoptedNode(t *testing.T) {
	lay := layout{name: "adopter-1", dir: t.TempDir()}
	ours, others := child(t, lay.name), child(t, "adopter-11")
	if err := os.Symlink("/proc/self/ns/net", lay.namespace()); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(adoption{Socket: "/none", Since: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		adopted   bool
		wantOther bool
	}{
		{"namespaces of its own", false, true},
		{"adopted ones", true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.adopted {
				if err := os.WriteFile(lay.path(adoptFile), data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			pids, err := lay.processes()
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(pids, ours) || slices.Contains(pids, others) != tt.wantOther {
				t.Errorf("processes %v; ours is %d, that of others is %d, wanted %v", pids, ours, others, tt.wantOther)
			}
		})
	}
}

// child starts a program of a node that runs until the test ends.
func child(t *testing.T, node string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	cmd.Env = append(os.Environ(), nameVariable+"="+node)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestArchiveRefs(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good.tar")
	program := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(program, []byte("program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ArchiveProgram(good, "example.test/a:1", program); err != nil {
		t.Fatal(err)
	}
	refs, err := archiveRefs(good)
	if diff := cmp.Diff([]string{"example.test/a:1"}, refs); diff != "" || err != nil {
		t.Errorf("%v; names (-want +got):\n%s", err, diff)
	}
	if refs, err := archiveRefs(program); err == nil {
		t.Errorf("a file that is no archive holds %v", refs)
	}
}
