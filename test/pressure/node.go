package pressure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/staticpods"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// Image is what the pods are made of.
func Image() testnode.Image {
	return testnode.Image{Ref: "nodekit.test/hog:1", Program: "hack/images/hog"}
}

// Config is where a node runs.
type Config struct {
	// Socket is the runtime's, which has the Image.
	Socket string
	// Root is the directory of the node, Logs that of the pods' logs.
	Root, Logs string
	// CgroupRoot is the parent of the pods' control groups; it is there.
	CgroupRoot string
	// Patience bounds each wait.
	Patience time.Duration
}

// Node is a node in this process.
type Node struct {
	tb     testing.TB
	cfg    Config
	source *source
	client *http.Client
}

// Start starts a node and ends it, without pods, at the end of the test.
func Start(tb testing.TB, cfg Config, edit ...func(*kubeletconfig.KubeletConfiguration)) *Node {
	tb.Helper()
	k := &kubeletconfig.KubeletConfiguration{
		ContainerRuntimeEndpoint: "unix://" + cfg.Socket, PodLogsDir: cfg.Logs, CgroupRoot: cfg.CgroupRoot,
		EnableServer: new(false), HealthzPort: new(int32(0)), FailCgroupV1: new(false),
		// The machine's disk is not the node's to guard.
		EvictionHard: map[string]string{"nodefs.available": "1Mi"}, ImageGCHighThresholdPercent: new(int32(100)),
	}
	for _, e := range edit {
		e(k)
	}
	n := &Node{tb: tb, cfg: cfg, source: &source{changed: make(chan struct{}, 1)}}
	socket := filepath.Join(cfg.Root, "kubelet.sock")
	n.client = &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		},
	}}
	kubelet, err := node.New(node.Config{
		Kubelet: k, Name: testnode.NodeName, Root: cfg.Root, Devices: node.DevicePlugins{None: true},
		Log:    slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})),
		Source: func(node.AdoptUID) (node.Source, error) { return n.source, nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- kubelet.Run(ctx) }()
	tb.Cleanup(func() {
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				tb.Errorf("the node ended with %v", err)
			}
		}()
		n.end()
	})
	return n
}

// end waits until nothing of the pods is left.
func (n *Node) end() {
	n.tb.Helper()
	n.Run()
	n.eventually("all pods are gone, and what they had", func(ctx context.Context) error {
		pods, err := n.pods(ctx)
		if err != nil {
			return err
		}
		left, err := filepath.Glob(filepath.Join(n.cfg.Root, "pods", "*"))
		if err == nil && len(pods)+len(left) > 0 {
			err = fmt.Errorf("%d pods are left, and %s", len(pods), left)
		}
		return err
	})
}

// Run replaces the pods that the node runs.
func (n *Node) Run(pods ...*corev1.Pod) { n.source.set(pods) }

// pods returns what the node shows of its pods, by name.
func (n *Node) pods(ctx context.Context) (map[string]*corev1.Pod, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node/pods", nil)
	if err != nil {
		return nil, err
	}
	response, err := n.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("decode the node's pods: %w", err)
	}
	out := map[string]*corev1.Pod{}
	for i := range list.Items {
		out[list.Items[i].Name] = &list.Items[i]
	}
	return out, nil
}

// eventually waits for something, with the status of all pods if it does not happen.
func (n *Node) eventually(what string, check func(context.Context) error) {
	n.tb.Helper()
	ctx := context.WithoutCancel(n.tb.Context())
	if err := testnode.Eventually(ctx, n.cfg.Patience, what, check); err != nil {
		pods, _ := n.pods(ctx) // only for the message
		text, _ := yaml.Marshal(pods)
		n.tb.Fatalf("%v\n%s", err, text)
	}
}

// await waits until a pod is as a check wants it, and returns it.
func (n *Node) await(name, what string, check func(*corev1.Pod) bool) *corev1.Pod {
	n.tb.Helper()
	var pod *corev1.Pod
	n.eventually("pod "+name+" "+what, func(ctx context.Context) error {
		pods, err := n.pods(ctx)
		if err != nil {
			return err
		}
		if pod = pods[name]; pod == nil || !check(pod) {
			return errors.New("it is not so")
		}
		return nil
	})
	return pod
}

// awaitLog waits until a pod has printed a line that begins with a word, and returns the
// rest of the line.
func (n *Node) awaitLog(pod *corev1.Pod, word string) string {
	n.tb.Helper()
	file := filepath.Join(n.cfg.Logs, strings.Join([]string{pod.Namespace, pod.Name, string(pod.UID)}, "_"), "main", "0.log")
	rest := ""
	n.eventually(fmt.Sprintf("pod %s prints %q", pod.Name, word), func(context.Context) error {
		raw, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(raw)) {
			if _, after, ok := strings.Cut(line, " F "+word+" "); ok {
				rest = strings.TrimSpace(after)
				return nil
			}
		}
		return fmt.Errorf("it printed %q", raw)
	})
	return rest
}

// pod returns one with a container that does what hog's arguments say.
func pod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("pressure-" + name)},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: new(int64(1)),
			HostNetwork: true, DNSPolicy: corev1.DNSDefault, // a guest has no plugin for another one
			Containers: []corev1.Container{{Name: "main", Image: Image().Ref, ImagePullPolicy: corev1.PullNever, Args: args}},
		},
	}
}

// source has pods that are in no file.
type source struct {
	changed chan struct{}

	mu   sync.Mutex // guards pods
	pods []*corev1.Pod
}

func (s *source) set(pods []*corev1.Pod) {
	s.mu.Lock()
	s.pods = pods
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run implements node.Source.
func (s *source) Run(ctx context.Context, set func(staticpods.Set)) error {
	for {
		s.mu.Lock()
		pods := slices.Clone(s.pods)
		s.mu.Unlock()
		set(staticpods.Set{Pods: pods})
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
	}
}

// Statuses implements node.Source.
func (s *source) Statuses() []staticpods.FileStatus { return nil }
