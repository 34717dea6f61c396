package node_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// TestKubeletsTakeOverFromEachOther has the stock kubelet start twenty static pods, then
// this project's take over, then the stock one again. No container is restarted.
func TestKubeletsTakeOverFromEachOther(t *testing.T) {
	requireHost(t)
	if !long() {
		t.Skip("NODEKIT_LONG=1 is not set: without it the stock kubelet is not built")
	}
	c, err := cluster.Start(t.Context(), cluster.Config{
		Name: "takeover", Logs: t.ArtifactDir(), Nodes: 1, NoWait: true, Node: cluster.NodeConfig{Kubelet: cluster.None, Proxy: cluster.None},
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
	const pods = 20
	containers := 0
	for _, pod := range manyKinds("static", pods) {
		data, err := yaml.Marshal(pod)
		if err == nil {
			err = os.WriteFile(filepath.Join(n.Manifests(), pod.Name+".yaml"), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		containers += len(pod.Spec.Containers)
		if len(pod.Spec.InitContainers) == 2 { // one of them is a sidecar
			containers++
		}
	}
	var before map[string]int64
	for _, source := range []cluster.Source{cluster.Stock, cluster.Ours, cluster.Stock} {
		n.UseKubelet(source)
		if err := n.Kubelet().Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		err := testnode.Eventually(t.Context(), 3*time.Minute, source.String()+": all containers run", func(ctx context.Context) error {
			now, err := runningOn(ctx, n)
			if err == nil && len(now) != containers {
				err = fmt.Errorf("%d of %d run", len(now), containers)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if before == nil {
			if before, err = runningOn(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		if err := wantSame(t.Context(), n, before, 30*time.Second); err != nil {
			t.Fatalf("under the %s kubelet: %v", source, err)
		}
		if err := n.Kubelet().Stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// wantSame wants the same containers to run for a while.
func wantSame(ctx context.Context, n *cluster.Node, want map[string]int64, during time.Duration) error {
	end := time.After(during)
	for {
		now, err := runningOn(ctx, n)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, now); diff != "" {
			return errors.New("containers (-before +after):\n" + diff)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-end:
			return nil
		case <-time.After(time.Second):
		}
	}
}

// runningOn is running for a node of a cluster: its static pods.
func runningOn(ctx context.Context, n *cluster.Node) (map[string]int64, error) {
	list, err := n.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	found := map[string]int64{}
	for _, c := range list.GetContainers() {
		name := c.GetLabels()["io.kubernetes.pod.name"]
		if strings.HasPrefix(name, "static-") {
			found[name+"/"+c.GetLabels()["io.kubernetes.container.name"]+" "+c.GetId()] = c.GetCreatedAt()
		}
	}
	return found, err
}
