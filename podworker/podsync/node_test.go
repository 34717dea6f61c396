package podsync_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/events"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/podworker/volume"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

const (
	shell = "img.example/shell:1"
	other = "img.example/shell:2"
)

// machine is what stays when the agent on it is restarted: a runtime and a disk.
type machine struct {
	*runtimetest.Server
	t   *testing.T
	dir string
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	return &machine{
		Server: runtimetest.Start(t, runtimetest.Config{Images: []runtimetest.Image{{Name: shell}, {Name: other}}}),
		t:      t,
		dir:    t.TempDir(),
	}
}

func (m *machine) root() string { return filepath.Join(m.dir, "root") }
func (m *machine) logs() string { return filepath.Join(m.dir, "logs") }

func (m *machine) config() podsync.Config {
	volumes, err := volume.New(volume.Config{Root: m.root()})
	if err != nil {
		m.t.Fatal(err)
	}
	return podsync.Config{
		Parts: podsync.Parts{Volumes: manager{volumes}},
		Node: podspec.Node{
			Name: "node-a", IPs: []string{"10.0.0.2"}, Root: m.root(), Logs: m.logs(), Instance: "agent-1",
		},
		RuntimeName: "containerd",
		LogLinks:    filepath.Join(m.dir, "links"),
	}
}

// manager sets up volumes.
type manager struct{ *volume.Manager }

func (m manager) SetUp(ctx context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	list, err := m.Manager.SetUp(ctx, pod)
	out := map[string]podspec.Volume{}
	for name, v := range list {
		out[name] = podspec.Volume{Path: v.Path, Block: v.Block, ReadOnly: v.ReadOnly, Relabel: v.Relabel, Group: v.Group}
	}
	return out, err
}

// agent is one process of a node agent: a Pool over a Syncer, woken by a relist every
// second.
type agent struct {
	t      *testing.T
	pool   *podworker.Pool
	syncer *podsync.Syncer
	client *runtime.Client
	stop   func()

	// mu guards the fields below.
	mu       sync.Mutex
	statuses map[types.UID][]corev1.PodStatus
	events   []string
	wanted   map[types.UID]bool
}

func (m *machine) agent(t *testing.T, edit ...func(*podsync.Config)) *agent {
	t.Helper()
	a := &agent{t: t, statuses: map[types.UID][]corev1.PodStatus{}, wanted: map[types.UID]bool{}}
	client, err := runtime.Dial(t.Context(), m.Endpoint(), runtime.Config{Dialer: m.DialContext})
	if err != nil {
		t.Fatal(err)
	}
	a.client = client
	cfg := m.config()
	cfg.OnStatus = a.onStatus
	cfg.OnEvent = a.onEvent
	volumes, err := volume.New(volume.Config{Root: m.root(), OnEvent: func(pod *corev1.Pod, e volume.Event) {
		a.onEvent(pod, podsync.Event{Type: e.Type, Reason: e.Reason, Message: e.Message})
	}})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Parts.Volumes = manager{volumes}
	for _, e := range edit {
		e(&cfg)
	}
	if a.syncer, err = podsync.New(a.client, cfg); err != nil {
		t.Fatal(err)
	}
	if a.pool, err = podworker.New(a.syncer, podworker.Config{}); err != nil {
		t.Fatal(err)
	}
	a.run()
	return a
}

// run starts the agent; stop ends it as kill -9 would: nothing is cleaned up.
func (a *agent) run() {
	ctx, cancel := context.WithCancel(a.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := a.pool.Run(ctx); err != nil {
			a.t.Errorf("Run: %v", err)
		}
	})
	running.Go(func() { a.relist(ctx) })
	a.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		if err := a.client.Close(); err != nil {
			a.t.Error(err)
		}
	})
	a.t.Cleanup(a.stop)
}

func (a *agent) relist(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := runtime.NewSnapshot(time.Now(), nil, nil)
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		next, err := a.client.Snapshot(ctx)
		if err != nil {
			continue
		}
		for _, change := range runtime.Diff(last, next) {
			a.pool.Wake(change.UID)
		}
		last = next
	}
}

func (a *agent) onStatus(pod *corev1.Pod, st corev1.PodStatus) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[pod.UID] = append(a.statuses[pod.UID], st)
}

// onEvent has every event of every test be one that people know.
func (a *agent) onEvent(pod *corev1.Pod, e podsync.Event) {
	if _, err := events.Find(&corev1.Event{
		InvolvedObject: events.OfPod(pod, e.Container), Type: e.Type, Reason: e.Reason, Message: e.Message,
	}); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, strings.TrimSpace(fmt.Sprintf("%s %s %s %s: %s", pod.Name, e.Container, e.Type, e.Reason, e.Message)))
}

// add makes the source name a pod.
func (a *agent) add(pod *corev1.Pod) {
	a.mu.Lock()
	a.wanted[pod.UID] = true
	a.mu.Unlock()
	a.pool.Update(pod)
}

// remove makes the pod vanish from its source.
func (a *agent) remove(pod *corev1.Pod) {
	a.mu.Lock()
	delete(a.wanted, pod.UID)
	uids := slices.Collect(maps.Keys(a.wanted))
	a.mu.Unlock()
	a.pool.Retain(iter.Seq[types.UID](slices.Values(uids)))
}

// status returns the last status of a pod.
func (a *agent) status(pod *corev1.Pod) corev1.PodStatus {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.statuses[pod.UID]
	if len(all) == 0 {
		a.t.Fatalf("pod %s has no status", pod.Name)
	}
	return all[len(all)-1]
}

// told returns the events with a reason.
func (a *agent) told(reason string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, e := range a.events {
		if strings.Contains(e, " "+reason+": ") {
			out = append(out, e)
		}
	}
	return out
}

// bubble runs a test in a bubble of fake time.
func bubble(t *testing.T, test func(m *machine)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(newMachine(t)) })
}

// pass lets time pass and the agent come to rest.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func newPod(name string, containers ...corev1.Container) *corev1.Pod {
	if len(containers) == 0 {
		containers = []corev1.Container{{Name: "app", Image: shell, Command: []string{"sh", "-c", "sleep 3600"}}}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", UID: types.UID("uid-" + name),
			Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec: corev1.PodSpec{Containers: containers, RestartPolicy: corev1.RestartPolicyAlways},
	}
}

func (a *agent) terminate(pod *corev1.Pod, grace time.Duration) {
	a.pool.Terminate(pod.UID, podworker.Termination{Grace: grace})
}

type protoMessage = proto.Message

// inOneSecond asks for an end within a second.
var inOneSecond = podworker.Termination{Grace: time.Second}

// staleUntil makes the runtime show containers as created until a time.
func staleUntil(until time.Time) func(proto.Message) {
	return func(m proto.Message) {
		if resp, ok := m.(*runtimeapi.ContainerStatusResponse); ok && time.Now().Before(until) {
			resp.Status.State = runtimeapi.ContainerState_CONTAINER_CREATED
			resp.Status.ExitCode, resp.Status.Reason, resp.Status.Message, resp.Status.FinishedAt = 0, "", "", 0
		}
	}
}

// byUIDOnly matches the lists by which a Syncer observes a pod.
func byUIDOnly(req proto.Message) bool {
	switch r := req.(type) {
	case *runtimeapi.ListPodSandboxRequest:
		return len(r.GetFilter().GetLabelSelector()) == 1
	case *runtimeapi.ListContainersRequest:
		return len(r.GetFilter().GetLabelSelector()) == 1
	}
	return false
}

func emptyList(m proto.Message) {
	switch r := m.(type) {
	case *runtimeapi.ListPodSandboxResponse:
		r.Items = nil
	case *runtimeapi.ListContainersResponse:
		r.Containers = nil
	}
}
