package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestKubeletsTakeOverCPUsFromEachOther has the stock kubelet give a container a CPU to
// itself, then this project's take over, then the stock one again: each reads the files of
// the other, and no container changes its CPUs.
func TestKubeletsTakeOverCPUsFromEachOther(t *testing.T) {
	requireHost(t)
	if !long() {
		t.Skip("NODEKIT_LONG=1 is not set: without it the stock kubelet is not built")
	}
	if n := goruntime.NumCPU(); n != 2 {
		t.Skipf("the machine has %d CPUs, want two", n)
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Name: "pinover", Logs: t.ArtifactDir(), Nodes: 1, NoWait: true,
		Node: cluster.NodeConfig{Kubelet: cluster.None, Proxy: cluster.None, KubeletSettings: pinningSettings()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	n := c.Node(0)
	if err := n.ImportImage(t.Context(), testnode.Life()); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{newPod("static-shares"), newPinnedPod("static-pinned")} {
		data, err := yaml.Marshal(pod)
		if err == nil {
			err = os.WriteFile(filepath.Join(n.Manifests(), pod.Name+".yaml"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var before map[string]int64
	for _, source := range []cluster.Source{cluster.Stock, cluster.Ours, cluster.Stock} {
		n.UseKubelet(source)
		if err := n.Kubelet().Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := testnode.Eventually(t.Context(), 3*time.Minute, source.String()+": the containers run on their CPUs", func(ctx context.Context) error {
			return wantCPUs(ctx, n, map[string]string{"static-shares-node-0": "0", "static-pinned-node-0": "1"})
		})
		if err != nil {
			t.Fatal(err)
		}
		if before == nil {
			if before, err = runningOn(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if err := wantSame(t.Context(), n, before, 20*time.Second); err != nil {
			t.Fatalf("under the %s kubelet: %v", source, err)
		}
		if err := n.Kubelet().Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantCPUs wants the containers of pods to run on these CPUs.
func wantCPUs(ctx context.Context, n *cluster.Node, want map[string]string) error {
	list, err := n.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	got := map[string]string{}
	for _, c := range list.GetContainers() {
		pid, err := n.CRI().ContainerPID(ctx, c.GetId())
		if err != nil {
			return err
		}
		if got[c.GetLabels()["io.kubernetes.pod.name"]], err = allowed(pid, "Cpus_allowed_list"); err != nil {
			return err
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New("CPUs (-want +got):\n" + diff)
	}
	return nil
}
