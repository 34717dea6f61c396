package joined_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// patience is for a machine with much else to do.
const patience = 4 * time.Minute

// workload is a cluster with pods.
type workload struct {
	*cluster.Cluster
	t *testing.T
}

// start starts a cluster of two nodes that keep their pods over a reboot. It ends with the
// test, and its logs stay when the test fails.
func start(t *testing.T) *workload {
	t.Helper()
	c := clustertest.Start(t, cluster.Config{
		Name: "joined", Nodes: 2, NoDNS: true,
		Node: cluster.NodeConfig{Kubelet: cluster.Ours, Proxy: cluster.None, KubeletFlags: []string{"--pod-store"}},
	})
	w := &workload{c, t}
	w.all(func(ctx context.Context, n *cluster.Node) error {
		for _, image := range []testnode.Image{testnode.Web(), testnode.Life()} {
			if err := n.ImportImage(ctx, image); err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

// all does something on all nodes at once.
func (w *workload) all(do func(context.Context, *cluster.Node) error) {
	w.t.Helper()
	g, ctx := errgroup.WithContext(w.t.Context())
	for _, n := range w.Nodes() {
		g.Go(func() error { return do(ctx, n) })
	}
	if err := g.Wait(); err != nil {
		w.t.Fatal(err)
	}
}

// kubectl runs kubectl, which has to succeed.
func (w *workload) kubectl(input string, args ...string) string {
	w.t.Helper()
	out, err := w.Kubectl(w.t.Context(), input, args...)
	if err != nil {
		w.t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// eventually waits for something.
func (w *workload) eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	if err := testnode.Eventually(w.t.Context(), patience, what, check); err != nil {
		w.t.Fatal(err)
	}
}

// pods returns the pods that the API server has, by name.
func (w *workload) pods(ctx context.Context) (map[string]*corev1.Pod, error) {
	out, err := w.Kubectl(ctx, "", "get", "pods", "-o", "json")
	if err != nil {
		return nil, err
	}
	return podsIn([]byte(out))
}

// shown returns the pods that a kubelet shows on its socket, by name.
func shown(ctx context.Context, n *cluster.Node) (map[string]*corev1.Pod, error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", n.Private("lib", "kubelet", "kubelet.sock"))
		},
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://kubelet/pods", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet of %s for its pods: %w", n.NodeName(), err)
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the kubelet of %s says %s: %s", n.NodeName(), resp.Status, out)
	}
	if err != nil {
		return nil, err
	}
	return podsIn(out)
}

func podsIn(data []byte) (map[string]*corev1.Pod, error) {
	var list corev1.PodList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		pods[list.Items[i].Name] = &list.Items[i]
	}
	return pods, nil
}

// containers returns the containers that run on a node: the names of pod and container,
// and the id.
func containers(ctx context.Context, n *cluster.Node) (map[string]string, error) {
	resp, err := n.CRI().Runtime.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	}})
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, c := range resp.GetContainers() {
		l := c.GetLabels()
		found[l["io.kubernetes.pod.name"]+"/"+l["io.kubernetes.container.name"]] = c.GetId()
	}
	return found, nil
}

// running returns the containers that run on all nodes.
func (w *workload) running() map[string]string {
	w.t.Helper()
	all := map[string]string{}
	for _, n := range w.Nodes() {
		found, err := containers(w.t.Context(), n)
		if err != nil {
			w.t.Fatal(err)
		}
		maps.Copy(all, found)
	}
	return all
}

// condition returns the status of a condition of a pod, empty if it has none.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// restarts returns how often a container of a pod was restarted.
func restarts(pod *corev1.Pod, container string) int32 {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == container {
			return c.RestartCount
		}
	}
	return -1
}

// podsOn returns the names of the pods on a node, sorted.
func podsOn(pods map[string]*corev1.Pod, node string) []string {
	var names []string
	for name, pod := range pods {
		if pod.Spec.NodeName == node {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
