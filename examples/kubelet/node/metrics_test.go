package node

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOperationsHaveTheKubeletsNames(t *testing.T) {
	got := map[string]string{}
	for _, method := range []string{"RunPodSandbox", "ListPodSandbox", "PodSandboxStatus", "CreateContainer", "ListContainers", "ExecSync", "Version", "ImageFsInfo"} {
		got[method] = operation(method)
	}
	want := map[string]string{
		"RunPodSandbox": "run_podsandbox", "ListPodSandbox": "list_podsandbox", "PodSandboxStatus": "podsandbox_status",
		"CreateContainer": "create_container", "ListContainers": "list_containers", "ExecSync": "exec_sync", "Version": "version", "ImageFsInfo": "image_fs_info",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}
