package replay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/story"
)

// longest is how long a story may take to be replayed: here time is real.
const longest = 100 * time.Second

// tale is a story that is being lived.
type tale struct {
	*story.Story
	name   string
	rec    *story.Recorder
	config runtimetest.Config
}

// stories returns the stories that a kubelet without an API server can live, and why it
// cannot live the others.
func stories(t *testing.T) (tales []*tale, left map[string]string) {
	t.Helper()
	const dir = "../../podworker/podsync/testdata"
	files, err := filepath.Glob(filepath.Join(dir, "*/*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	left = map[string]string{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, err := story.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(file, dir+"/"), ".txtar")
		if why := cannotLive(s); why != "" {
			left[name] = why
			continue
		}
		tales = append(tales, &tale{Story: s, name: name})
	}
	return tales, left
}

// cannotLive returns why a story cannot be replayed; empty if it can.
func cannotLive(s *story.Story) string {
	switch {
	case s.Until > longest:
		return fmt.Sprintf("takes %s of real time", s.Until)
	case len(s.Probes) > 0:
		return "the results of its probes are given, a stock kubelet makes them itself"
	case len(s.Pod.Spec.EphemeralContainers) > 0:
		return "static pods have no ephemeral containers"
	}
	for _, step := range s.Steps {
		switch step.Verb {
		case "remove", "delete", "end":
		default:
			return "a static pod has no " + step.Verb
		}
	}
	return ""
}

// TestStockKubeletLivesTheStories has one stock kubelet live all stories at once.
func TestStockKubeletLivesTheStories(t *testing.T) {
	if os.Getenv("NODEKIT_LONG") != "1" {
		t.Skip("NODEKIT_LONG=1 is not set: without it the stock kubelet is not built")
	}
	tales, left := stories(t)
	n, server := startNode(t, tales)
	live(t, n, server, tales)
	known := differences(t)
	for _, tl := range tales {
		broken := story.Check(tl.Expect, tl.rec.Events())
		reason, listed := known[tl.name]
		switch {
		case len(broken) > 0 && !listed:
			t.Errorf("%s: %s\nwhat happened:\n%s", tl.name, strings.Join(broken, "\n"), tl.rec)
		case len(broken) > 0:
			t.Logf("%s: differs: %s (%s)", tl.name, strings.Join(broken, "; "), reason)
		case listed:
			t.Logf("%s: holds this time, although: %s", tl.name, reason)
		}
		delete(known, tl.name)
	}
	for name := range known {
		t.Errorf("differences.txt names %s, which was not replayed", name)
	}
	t.Logf("%d stories were replayed, %d cannot be:", len(tales), len(left))
	for name, why := range left {
		t.Logf("  %s: %s", name, why)
	}
}

// differences reads why a story does not hold on a stock kubelet: "name: reason" a line.
func differences(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/differences.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if ok && !strings.HasPrefix(name, "#") {
			known[name] = reason
		}
	}
	return known
}

// startNode starts a node whose stock kubelet talks to a runtime that lives the stories.
func startNode(t *testing.T, tales []*tale) (*cluster.Node, *runtimetest.Server) {
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
		"containerRuntimeEndpoint": "unix://" + socket, "readOnlyPort": 10255, "maxPods": 250,
		"serializeImagePulls": false, "registryPullQPS": 0, "fileCheckFrequency": "1s",
		// The runtime is this process, which sees the host's folders and not the node's.
		"podLogsDir": t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	byPod := map[string]*tale{}
	config := runtimetest.Config{Socket: socket, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.88.0.0/16")}}
	for i, tl := range tales {
		tl.Pod.Name, tl.Pod.UID = fmt.Sprintf("story-%d", i), ""
		byPod[tl.Pod.Name+"-"+n.NodeName()] = tl
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
		if tl := byPod[e.Container.Sandbox.GetMetadata().GetName()]; tl != nil {
			return tl.config.Exec(ctx, e)
		}
		return runtimetest.ExecResult{}
	}
	server := runtimetest.Start(t, config)
	n.UseKubelet(cluster.Stock)
	if err := n.Kubelet().Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n, server
}

// live writes the manifests, does what happens in the stories, and watches.
func live(t *testing.T, n *cluster.Node, server *runtimetest.Server, tales []*tale) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	conn, err := grpc.NewClient(server.Endpoint(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); running.Wait(); _ = conn.Close() }()
	for _, tl := range tales {
		running.Go(func() {
			_ = tl.rec.Watch(ctx, server, runtimeapi.NewRuntimeServiceClient(conn), func() {})
		})
	}
	running.Go(func() { watchPods(ctx, n, tales) })
	var lives sync.WaitGroup
	for _, tl := range tales {
		lives.Go(func() {
			if err := tl.live(ctx, n, server); err != nil {
				t.Errorf("%s: %v", tl.name, err)
			}
		})
	}
	lives.Wait()
	for _, tl := range tales {
		tl.rec.Stops(server.Calls("StopContainer"))
	}
}

// live lives one story.
func (tl *tale) live(ctx context.Context, n *cluster.Node, server *runtimetest.Server) error {
	file := filepath.Join(n.Manifests(), tl.Pod.Name+".yaml")
	pod := tl.Pod.DeepCopy()
	pod.APIVersion, pod.Kind = "v1", "Pod"
	for _, step := range tl.Steps { // without an API server, the grace period is the pod's
		if step.Verb == "delete" && len(step.Args) == 1 {
			if d, err := time.ParseDuration(step.Args[0]); err == nil {
				pod.Spec.TerminationGracePeriodSeconds = new(int64(d.Seconds()))
			}
		}
	}
	data, err := yaml.Marshal(pod)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return err
	}
	began := time.Now()
	for _, step := range tl.Steps {
		if err := until(ctx, began.Add(step.At)); err != nil {
			return err
		}
		tl.rec.Happens(story.Outside, 0, step.String())
		switch step.Verb {
		case "end":
			_ = server.Exit("default/"+pod.Name+"-"+n.NodeName(), step.Args[0], runtimetest.Exit{}) // it may have ended
		default:
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) { // it is deleted again
				return err
			}
		}
	}
	return until(ctx, began.Add(tl.Until+5*time.Second))
}

func until(ctx context.Context, at time.Time) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(at)):
		return nil
	}
}

// watchPods tells the recorders of the statuses that the kubelet shows.
func watchPods(ctx context.Context, n *cluster.Node, tales []*tale) {
	for until(ctx, time.Now().Add(250*time.Millisecond)) == nil {
		data, err := n.Get(ctx, "http://127.0.0.1:10255/pods")
		var list corev1.PodList
		if err != nil || json.Unmarshal(data, &list) != nil {
			continue
		}
		for i := range list.Items {
			pod := &list.Items[i]
			at := slices.IndexFunc(tales, func(tl *tale) bool { return tl.Pod.Name+"-"+n.NodeName() == pod.Name })
			if at >= 0 && pod.Annotations[corev1.MirrorPodAnnotationKey] == "" {
				tales[at].rec.Happens("pod", 0, statusText(&pod.Status))
			}
		}
	}
}

// statusText says what a status shows, in the words of the stories.
func statusText(st *corev1.PodStatus) string {
	text := "is " + string(st.Phase)
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			text += " and ready"
		}
	}
	if st.Reason != "" {
		text += " for " + st.Reason
	}
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
				text += fmt.Sprintf(", %s in %s", list[i].Name, w.Reason)
			}
		}
	}
	return text
}
