package replay_test

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/story"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// stage is where the stories are lived.
type stage struct {
	node   *cluster.Node
	server *runtimetest.Server
	// runtime asks the server what a kubelet asks it.
	runtime runtimeapi.RuntimeServiceClient
	pods    typedcorev1.PodInterface
	tales   []*tale
}

// startStage starts a cluster with a node whose stock kubelet talks to a runtime that
// lives the stories.
func startStage(t *testing.T, tales []*tale) *stage {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Config{Name: "replay", Logs: t.ArtifactDir(), NoWait: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	socket := filepath.Join(t.TempDir(), "cri.sock")
	n, err := c.AddNode(t.Context(), cluster.NodeConfig{Kubelet: cluster.None, Proxy: cluster.None, KubeletSettings: map[string]any{
		"containerRuntimeEndpoint": "unix://" + socket, "maxPods": 250,
		"serializeImagePulls": false, "registryPullQPS": 0,
		// The runtime is this process, which sees the host's folders and not the node's.
		"podLogsDir": t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{node: n, tales: tales, pods: podsOf(t, c), server: runtimetest.Start(t, runtimeOf(socket, tales))}
	conn, err := grpc.NewClient(s.server.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.runtime = runtimeapi.NewRuntimeServiceClient(conn)
	n.UseKubelet(cluster.Stock)
	if err := n.Kubelet().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := n.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func podsOf(t *testing.T, c *cluster.Cluster) typedcorev1.PodInterface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.Dial, config.QPS = c.Plane().Dial, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	err = testnode.Eventually(t.Context(), time.Minute, "the namespace has a service account", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().Pods("default")
}

// runtimeOf is the runtime of all stories, each of which has a pod.
func runtimeOf(socket string, tales []*tale) runtimetest.Config {
	byPod := map[string]*tale{}
	config := runtimetest.Config{Socket: socket, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")}}
	for i, tl := range tales {
		tl.Pod.Name, tl.Pod.UID = fmt.Sprintf("story-%d", i), ""
		byPod[tl.Pod.Name] = tl
		tl.rec = story.NewRecorder()
		tl.config = tl.Runtime(tl.rec)
		config.Images = tl.config.Images
	}
	config.Script = func(i runtimetest.Instance) *runtimetest.Life {
		if tl := byPod[i.Sandbox.GetMetadata().GetName()]; tl != nil {
			return tl.config.Script(i)
		}
		return nil
	}
	config.Exec = func(ctx context.Context, e runtimetest.Exec) runtimetest.ExecResult {
		switch tl := byPod[e.Container.Sandbox.GetMetadata().GetName()]; {
		case tl == nil:
			return runtimetest.ExecResult{}
		case len(e.Cmd) == 2 && e.Cmd[0] == probeCommand:
			return tl.probe(ctx, e.Container.ID, e.Cmd[1])
		default:
			return tl.config.Exec(ctx, e)
		}
	}
	return config
}

// live has the stories lived at once, a part after the other so that the kubelet keeps
// up, and those alone that kill it.
func (s *stage) live(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer func() { cancel(); watching.Wait() }()
	for _, tl := range s.tales {
		watching.Go(func() { _ = tl.rec.Watch(ctx, s.server, s.runtime, func() {}) })
	}
	watching.Go(func() { s.watchPods(ctx) })
	var together, alone []*tale
	for _, tl := range s.tales {
		if slices.ContainsFunc(tl.Steps, func(step story.Step) bool { return step.Verb == "restart" || step.Verb == "reboot" }) {
			alone = append(alone, tl)
		} else {
			together = append(together, tl)
		}
	}
	slices.SortStableFunc(together, func(a, b *tale) int { return cmp.Compare(a.Until, b.Until) })
	parts := slices.Collect(slices.Chunk(together, atOnce))
	for _, tl := range alone {
		parts = append(parts, []*tale{tl})
	}
	for i, part := range parts {
		t.Logf("part %d of %d: %d stories", i+1, len(parts), len(part))
		var lives sync.WaitGroup
		for _, tl := range part {
			lives.Go(func() {
				if err := s.liveOne(ctx, tl); err != nil {
					t.Errorf("%s: %v", tl.name, err)
				}
			})
		}
		lives.Wait()
	}
	for _, tl := range s.tales {
		tl.rec.Stops(s.server.Calls("StopContainer"))
	}
}

// atOnce is how many stories are lived at the same time.
const atOnce = 36
