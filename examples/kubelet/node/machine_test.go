package node_test

import (
	"context"
	"encoding/json"
	"errors"
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
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/examples/kubelet/node"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/staticpods"
)

const shell = "img.example/shell:1"

// machine is what stays when the agent on it is restarted: a runtime, a disk and
// manifests.
type machine struct {
	*runtimetest.Server
	// t is the test in fake time.
	t         *testing.T
	root      string
	manifests *manifests
	log       *journal
	commands  *commands
}

// onMachine runs f in fake time on a machine whose runtime works.
func onMachine(t *testing.T, f func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &commands{}
		f(&machine{
			t:         t,
			commands:  c,
			Server:    runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: shell}}, Exec: c.run}),
			root:      filepath.Join(t.TempDir(), "root"),
			manifests: &manifests{changed: make(chan struct{}, 1)},
			log:       &journal{},
		})
	})
}

// commands answers commands in containers.
type commands struct {
	mu     sync.Mutex // guards answer
	answer func(runtimetest.Exec) runtimetest.ExecResult
}

// set says how commands end from now on; nil: well.
func (c *commands) set(answer func(runtimetest.Exec) runtimetest.ExecResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *commands) run(_ context.Context, e runtimetest.Exec) runtimetest.ExecResult {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer == nil {
		return runtimetest.ExecResult{}
	}
	return answer(e)
}

// kubelet is one process of the agent.
type kubelet struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
	// dial connects to a server by its network, "tcp" or "unix".
	dial map[string]*pipes
}

// start starts an agent; the test stops it at its end if nobody did before.
func (m *machine) start(t *testing.T, edit ...func(*node.Config)) *kubelet {
	t.Helper()
	k := &kubelet{t: t, ended: make(chan error, 1), dial: map[string]*pipes{"tcp": newPipes(), "unix": newPipes()}}
	cfg := node.Config{
		Kubelet: &kubeletconfig.KubeletConfiguration{
			PodLogsDir:         filepath.Join(m.root, "..", "logs"),
			HealthzBindAddress: "127.0.0.1",
			HealthzPort:        new(int32(10248)),
			EnableServer:       new(false),
		},
		Name:    "node-a",
		Root:    m.root,
		Log:     slog.New(slog.NewTextHandler(m.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Host:    &podspec.Node{IPs: []string{"10.0.0.2"}},
		Cgroups: podsync.CgroupDirs{},
		Devices: node.DevicePlugins{None: true},
		Dial: func(ctx context.Context) (node.Runtime, error) {
			c, err := runtime.Dial(ctx, m.Endpoint(), runtime.Config{Dialer: m.DialContext})
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Source: func(adopt node.AdoptUID) (node.Source, error) {
			m.manifests.adopt = adopt
			return m.manifests, nil
		},
		Listen: func(_ context.Context, network, _ string) (net.Listener, error) { return k.dial[network], nil },
	}
	for _, e := range edit {
		e(&cfg)
	}
	n, err := node.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	k.stop = stop
	go func() { k.ended <- n.Run(ctx) }()
	t.Cleanup(k.end)
	return k
}

// end stops the agent and waits for it.
func (k *kubelet) end() {
	k.t.Helper()
	if k.stop == nil {
		return
	}
	k.stop()
	k.stop = nil
	if err := <-k.ended; err != nil {
		k.t.Errorf("Run: %v", err)
	}
}

// client returns a client of one of the agent's servers.
func (k *kubelet) client(network string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(context.Context, string, string) (net.Conn, error) { return k.dial[network].connect() },
	}}
}

// get asks one of the agent's servers.
func (k *kubelet) get(network, path string) (int, string) {
	k.t.Helper()
	resp, err := k.client(network).Get("http://kubelet" + path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		k.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// ask asks the local API for what has another tag.
func (k *kubelet) ask(path, tag string) *http.Response {
	k.t.Helper()
	req, err := http.NewRequestWithContext(k.t.Context(), http.MethodGet, "http://kubelet"+path, http.NoBody)
	if err != nil {
		k.t.Fatal(err)
	}
	req.Header.Set("If-None-Match", tag)
	resp, err := k.client("unix").Do(req)
	if err != nil {
		k.t.Fatal(err)
	}
	resp.Body.Close()
	return resp
}

// pods returns what /pods shows.
func (k *kubelet) pods() map[string]corev1.Pod {
	k.t.Helper()
	code, body := k.get("unix", "/pods")
	if code != http.StatusOK {
		k.t.Fatalf("/pods is %d %s", code, body)
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		k.t.Fatal(err)
	}
	if list.Kind != "PodList" || list.APIVersion != "v1" {
		k.t.Errorf("/pods is %s of %s, want PodList of v1", list.Kind, list.APIVersion)
	}
	pods := map[string]corev1.Pod{}
	for _, p := range list.Items {
		pods[p.Name] = p
	}
	return pods
}

// pass lets fake time pass until nothing happens at that moment any more.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// manifests is a source of pods that the test writes.
type manifests struct {
	adopt   node.AdoptUID
	changed chan struct{}
	// adopts asks for the UID of each new pod, as for manifests that state none.
	adopts bool

	mu    sync.Mutex // guards the fields below
	pods  []*corev1.Pod
	files []staticpods.FileStatus
}

// write replaces the whole set.
func (s *manifests) write(pods ...*corev1.Pod) {
	s.mu.Lock()
	s.pods, s.files = pods, nil
	for _, p := range pods {
		s.files = append(s.files, staticpods.FileStatus{
			Path: "/manifests/" + p.Name + ".yaml", State: staticpods.OK, Pod: p.Namespace + "/" + p.Name, UID: p.UID,
		})
	}
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// Run delivers the set.
func (s *manifests) Run(ctx context.Context, set func(staticpods.Set)) error {
	for {
		s.mu.Lock()
		pods := slices.Clone(s.pods)
		s.mu.Unlock()
		if s.adopts {
			s.takeUIDs(pods)
		}
		set(staticpods.Set{Pods: pods})
		select {
		case <-ctx.Done():
			return nil
		case <-s.changed:
		}
	}
}

// takeUIDs gives pods the UIDs under which they run already.
func (s *manifests) takeUIDs(pods []*corev1.Pod) {
	for i, p := range pods {
		if uid, ok := s.adopt(p); ok {
			pods[i] = p.DeepCopy()
			pods[i].UID = uid
		}
	}
}

// Statuses returns the statuses of the set, and what the test added.
func (s *manifests) Statuses() []staticpods.FileStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.files)
}

// pipes is a listener in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) connect() (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, errors.New("the server is closed")
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

// journal keeps a log.
type journal struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

// has reports whether a line of the log has all the words.
func (j *journal) has(words ...string) bool { return j.count(words...) > 0 }

// count returns how many lines of the log have all the words.
func (j *journal) count(words ...string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := 0
	for line := range strings.Lines(j.b.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			n++
		}
	}
	return n
}

// newPod returns a static pod with one container.
func newPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID("uid-" + name),
			Annotations: map[string]string{staticpods.AnnotationSource: "file", staticpods.AnnotationHash: "uid-" + name},
		},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: new(int64(20)),
			Containers: []corev1.Container{{
				Name: "app", Image: shell, ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

// imageOf is the image of a pod, present.
func imageOf(pod *corev1.Pod) runtimetest.Image {
	return runtimetest.Image{Name: pod.Spec.Containers[0].Image}
}

// stranger makes a running pod past the agent, as crictl or another kubelet would,
// and returns the id of its container.
func (m *machine) stranger(t *testing.T, pod *corev1.Pod, annotations map[string]string) string {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	labels := podspec.PodLabels(pod)
	config := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID)},
		Labels:   labels, Annotations: annotations,
	}
	sandbox, err := c.RunPodSandbox(t.Context(), config, "")
	if err != nil {
		t.Fatal(err)
	}
	labels = podspec.PodLabels(pod)
	labels[podspec.LabelContainerName] = "app"
	id, err := c.CreateContainer(t.Context(), sandbox, &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: "app"},
		Image:    &runtimeapi.ImageSpec{Image: pod.Spec.Containers[0].Image},
		Labels:   labels,
		Annotations: map[string]string{
			podspec.AnnotationHash:             podspec.ContainerHash(&pod.Spec.Containers[0]),
			podspec.AnnotationRestartCount:     "0",
			podspec.AnnotationTerminationGrace: "20",
		},
	}, config)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.StartContainer(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	m.ForgetCalls()
	return id
}

// containers returns the running containers: pod and id.
func (m *machine) containers(t *testing.T) map[string]string {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	list, err := c.ListContainers(t.Context(), &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]string{}
	for _, ct := range list {
		running[ct.GetLabels()[podspec.LabelPodName]] += ct.GetId()
	}
	return running
}

// left returns what is in the runtime and in the root directory of pods: nothing
// once they are gone.
func (m *machine) left(t *testing.T) []string {
	t.Helper()
	c := m.Client(t)
	defer c.Close()
	sandboxes, err := c.ListPodSandbox(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, sb := range sandboxes {
		left = append(left, "sandbox "+sb.GetMetadata().GetName())
	}
	for _, dir := range []string{filepath.Join(m.root, "pods"), filepath.Join(m.root, "..", "logs")} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, e := range entries {
			left = append(left, filepath.Join(filepath.Base(dir), e.Name()))
		}
	}
	return left
}

// unchanged fails the test if the runtime was asked to change anything; probes do not.
func (m *machine) unchanged(t *testing.T) {
	t.Helper()
	changes := slices.DeleteFunc(m.Changes(), func(c string) bool {
		return c == "RuntimeConfig" || strings.HasPrefix(c, "ExecSync ")
	})
	if len(changes) > 0 {
		t.Errorf("runtime was asked for %q, want nothing", changes)
	}
}
