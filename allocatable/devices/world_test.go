package devices

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/devices/devicestest"
	"github.com/nodekit-go/nodekit/allocatable/topology"
)

const (
	gpu = "example.com/gpu"
	nic = "example.com/nic"
)

// parseDevice reads what made describes.
func parseDevice(s string) Device {
	id, nodes, placed := strings.Cut(s, "@")
	id, bad := strings.CutSuffix(id, "!")
	d := Device{ID: id, Healthy: !bad}
	if placed {
		for n := range strings.SplitSeq(nodes, ",") {
			node, err := strconv.Atoi(n)
			if err != nil {
				panic(err)
			}
			d.Nodes = append(d.Nodes, node)
		}
	}
	return d
}

// listing returns devices as a plugin lists them.
func listing(texts ...string) []*deviceapi.Device {
	var out []*deviceapi.Device
	for _, s := range texts {
		d := parseDevice(s)
		api := devicestest.Healthy(d.ID)
		if !d.Healthy {
			api = devicestest.Unhealthy(d.ID)
		}
		for _, n := range d.Nodes {
			if api.Topology == nil {
				api.Topology = &deviceapi.TopologyInfo{}
			}
			api.Topology.Nodes = append(api.Topology.Nodes, &deviceapi.NUMANode{ID: int64(n)})
		}
		out = append(out, api)
	}
	return out
}

// memoryFile is a keeper that forgets nothing when a process ends.
type memoryFile struct {
	mu     sync.Mutex // guards the fields below
	raw    []byte
	err    error
	saves  int
	moved  []byte
	isBad  bool
	failed int
}

func (f *memoryFile) load() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.raw), f.err
}

func (f *memoryFile) broken() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isBad = true
}

func (f *memoryFile) save(raw []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		f.failed++
		return f.err
	}
	if f.isBad {
		f.moved, f.isBad = f.raw, false
	}
	f.raw = slices.Clone(raw)
	f.saves++
	return nil
}

func (f *memoryFile) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

// world is a machine in a bubble: plugins that serve over pipes, a disk, and one process
// after the other with a Manager.
type world struct {
	*testing.T
	file *memoryFile
	cfg  Config

	mu      sync.Mutex // guards the fields below
	sockets map[string]*bufconn.Listener
	changed []types.UID

	*Manager
	stop func()
}

// bubble runs a test in fake time, with a Manager that runs.
func bubble(t *testing.T, cfg Config, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, file: &memoryFile{}, cfg: cfg, sockets: map[string]*bufconn.Listener{}}
		w.cfg.Dir = "/plugins"
		w.cfg.Changed = func(pods []types.UID) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed = append(w.changed, pods...)
		}
		w.start()
		test(w)
		w.stop()
	})
}

// start begins a process.
func (w *world) start() {
	cfg, err := w.cfg.validate()
	if err != nil {
		w.Fatal(err)
	}
	w.Manager = newWith(cfg, w.connect, w.file)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	m := w.Manager
	running.Go(func() { m.follow(ctx) })
	w.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
}

// restart ends the process, and begins another in which these containers run already.
func (w *world) restart(ran ...string) {
	w.stop()
	w.cfg.Ran = func(uid types.UID, container string) bool { return slices.Contains(ran, string(uid)+"/"+container) }
	w.start()
}

// connect is the dialer.
func (w *world) connect(socket string) (deviceapi.DevicePluginClient, func(), error) {
	c, err := grpc.NewClient("passthrough:///plugin", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			w.mu.Lock()
			l := w.sockets[socket]
			w.mu.Unlock()
			if l == nil {
				return nil, net.ErrClosed
			}
			return l.DialContext(ctx)
		}))
	if err != nil {
		return nil, nil, err
	}
	return deviceapi.NewDevicePluginClient(c), func() { _ = c.Close() }, nil
}

// serve serves a plugin on a socket until the test ends or it is killed.
func (w *world) serve(socket string, p *devicestest.Plugin) (kill func()) {
	l := bufconn.Listen(1 << 16)
	s := grpc.NewServer()
	deviceapi.RegisterDevicePluginServer(s, p)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(l) })
	w.mu.Lock()
	w.sockets[socket] = l
	w.mu.Unlock()
	kill = sync.OnceFunc(func() { s.Stop(); serving.Wait(); synctest.Wait() })
	w.Cleanup(kill)
	return kill
}

// plug starts a plugin with devices and registers it.
func (w *world) plug(cfg devicestest.Config, devices ...string) (p *devicestest.Plugin, kill func()) {
	w.Helper()
	if cfg.Resource == "" {
		cfg.Resource = gpu
	}
	if cfg.Socket == "" {
		cfg.Socket = cfg.Resource
	}
	cfg.Devices = listing(devices...)
	p = devicestest.New(cfg)
	kill = w.serve(cfg.Socket, p)
	if err := w.Register(w.Context(), cfg.Resource, cfg.Socket, []string{deviceapi.Version}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return p, kill
}

// newPod returns a pod whose containers ask for devices: "app=2" for two GPUs, "i:init=1"
// in an init container, "s:side=1" in a sidecar.
func newPod(uid string, containers ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: uid, UID: types.UID(uid)}}
	for _, text := range containers {
		kind, text, ok := strings.Cut(text, ":")
		if !ok {
			kind, text = "", kind
		}
		name, count, _ := strings.Cut(text, "=")
		c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{gpu: resource.MustParse(count)}}}
		switch kind {
		case "i":
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case "s":
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// containersOf returns the containers of a pod in the order in which they start.
func containersOf(pod *corev1.Pod) []*corev1.Container {
	var out []*corev1.Container
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	return out
}

// admit allocates devices to a pod.
func (w *world) admit(pod *corev1.Pod) error {
	for _, c := range containersOf(pod) {
		if err := w.Allocate(w.Context(), topology.Request{Pod: pod, Container: c}, topology.Hint{}); err != nil {
			return err
		}
	}
	return w.Prepare(w.Context(), pod)
}

// mustAdmit is admit for a pod that there are devices for.
func (w *world) mustAdmit(pod *corev1.Pod) {
	w.Helper()
	if err := w.admit(pod); err != nil {
		w.Fatalf("pod %s: %v", pod.UID, err)
	}
}

// begin does what comes before a run of a container, and returns its devices as the
// plugin's answer has them.
func (w *world) begin(pod *corev1.Pod, container string) (string, error) {
	for _, c := range containersOf(pod) {
		if c.Name == container {
			answer, err := w.Container(w.Context(), pod, c)
			return answer.GetEnvs()["DEVICES"], err
		}
	}
	return "", nil
}

// has returns the devices that a container has, with commas.
func (w *world) has(pod *corev1.Pod, container string) string {
	var ids []string
	for _, list := range w.Assigned(pod.UID, container) {
		for _, d := range list {
			ids = append(ids, d.ID)
		}
	}
	return strings.Join(ids, ",")
}

// counts returns allocatable and capacity of a resource, as "3/4"; "none" if it is not
// known.
func (w *world) counts(name string) string {
	capacity, allocatable := w.Resources()
	c, ok := capacity[corev1.ResourceName(name)]
	if !ok {
		return "none"
	}
	a := allocatable[corev1.ResourceName(name)]
	return a.String() + "/" + c.String()
}

// healthOf returns the health of the devices of a container.
func (w *world) healthOf(pod *corev1.Pod, container string) string {
	var out []string
	for _, r := range w.Health(pod.UID, container) {
		for _, d := range r.Resources {
			out = append(out, string(d.ResourceID)+" "+string(d.Health))
		}
	}
	return strings.Join(out, ", ")
}

// told returns the pods that were told of since it was last called.
func (w *world) told() []types.UID {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.changed
	w.changed = nil
	return out
}

// pass lets time pass.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // fake time
	synctest.Wait()
}
