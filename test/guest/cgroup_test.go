package guest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// A container's limits are those of its control group of version 2, below the one
// that its pod has.
func TestInGuestPodHasItsLimitsOnCgroupV2(t *testing.T) {
	client := startContainerd(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const parent = "/kubepods/podguest"
	sandbox := startSandbox(ctx, t, client.Client, parent)
	id := startContainer(ctx, t, client.Client, sandbox, &runtimeapi.LinuxContainerResources{
		MemoryLimitInBytes: 64 << 20, CpuQuota: 20000, CpuPeriod: 100000,
		Unified: map[string]string{"pids.max": "77"},
	})
	group := groupOf(ctx, t, client.Client, id)
	if !strings.HasPrefix(group, parent+"/") {
		t.Errorf("control group = %s, want one below %s", group, parent)
	}
	want := map[string]string{"memory.max": "67108864", "cpu.max": "20000 100000", "pids.max": "77"}
	if diff := cmp.Diff(want, limits(t, group, want)); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	err := client.UpdateContainerResources(ctx, id, &runtimeapi.ContainerResources{
		Linux: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: 96 << 20, CpuQuota: 50000, CpuPeriod: 100000},
	})
	if err != nil {
		t.Fatal(err)
	}
	want = map[string]string{"memory.max": "100663296", "cpu.max": "50000 100000"}
	if diff := cmp.Diff(want, limits(t, group, want)); diff != "" {
		t.Errorf("limits after a resize (-want +got):\n%s", diff)
	}
	if err := client.StopPodSandbox(ctx, sandbox.id); err != nil {
		t.Fatal(err)
	}
	if err := client.RemovePodSandbox(ctx, sandbox.id); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", group)); !os.IsNotExist(err) {
		t.Errorf("control group of the removed container: %v, want it gone", err)
	}
}

type sandbox struct {
	id     string
	config *runtimeapi.PodSandboxConfig
}

// startSandbox starts a sandbox in the guest's own network: no plugin is needed.
func startSandbox(ctx context.Context, t *testing.T, client *runtime.Client, parent string) sandbox {
	t.Helper()
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "pod", Uid: "guest", Namespace: "default"},
		LogDirectory: t.TempDir(),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: parent,
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE},
			},
		},
	}
	id, err := client.RunPodSandbox(ctx, config, "")
	if err != nil {
		t.Fatal(err)
	}
	return sandbox{id, config}
}

func startContainer(ctx context.Context, t *testing.T, client *runtime.Client, in sandbox, resources *runtimeapi.LinuxContainerResources) string {
	t.Helper()
	id, err := client.CreateContainer(ctx, in.id, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "main"},
		Image:    &runtimeapi.ImageSpec{Image: testnode.PauseRef},
		LogPath:  "main.log",
		Linux:    &runtimeapi.LinuxContainerConfig{Resources: resources},
	}, in.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := client.StartContainer(ctx, id); err != nil {
		t.Fatal(err)
	}
	return id
}

// groupOf returns the control group of a container's process.
func groupOf(ctx context.Context, t *testing.T, client *runtime.Client, id string) string {
	t.Helper()
	status, err := client.ContainerStatus(ctx, id, true)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, after, ok := strings.Cut(status.GetInfo()["info"], `"pid":`); ok {
		if _, err := fmt.Sscanf(after, "%d", &pid); err != nil {
			t.Fatalf("the container's process: %v", err)
		}
	}
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, group, ok := strings.Cut(strings.TrimSpace(string(content)), "0::")
	if !ok {
		t.Fatalf("control groups of the container's process = %q, want one of version 2", content)
	}
	return group
}

// limits reads the files that names has as keys.
func limits(t *testing.T, group string, names map[string]string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for name := range names {
		content, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", group, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = strings.TrimSpace(string(content))
	}
	return got
}
