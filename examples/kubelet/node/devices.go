package node

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/allocatable/devices"
	"github.com/nodekit-go/nodekit/allocatable/topology"
	"github.com/nodekit-go/nodekit/internal/pluginwatch"
	"github.com/nodekit-go/nodekit/podworker/admission"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/runtime"
)

// DevicePlugins says how the devices of the machine are handed out. The zero value is as in
// a kubelet: plugins register in the directories device-plugins and plugins_registry of
// Config.Root, and programs ask on a socket in pod-resources who has what.
type DevicePlugins struct {
	// None has the node without devices: pods that ask for some are refused, and the
	// sockets are not there.
	None bool
}

// pluginSockets is the directory of the sockets of device plugins
// (https://kubernetes.io/docs/reference/node/kubelet-files/).
const pluginSockets = "device-plugins"

// deviceDesk hands devices out. It is nil on a node without.
type deviceDesk struct {
	*devices.Manager
	node *Node
	// ran are the containers that were running when the runtime first answered.
	ran atomic.Pointer[map[string]bool]
	// wake is sent when devices have changed.
	wake chan struct{}

	mu sync.Mutex // guards due
	// due are the pods that have to be looked at again when devices have changed: those
	// that have them, and those that wait for some.
	due map[types.UID]bool
}

// openDevices reads who has which devices.
func (n *Node) openDevices() error {
	if n.cfg.Devices.None || n.guest {
		return nil // the sockets are those of the agent that looks after the machine
	}
	d := &deviceDesk{node: n, wake: make(chan struct{}, 1), due: map[types.UID]bool{}}
	var ids []int
	for _, numa := range n.resources.p.Load().machine.NUMA {
		ids = append(ids, numa.ID)
	}
	nodes, err := topology.NodesOf(ids...)
	if err != nil {
		n.log.Warn("devices are handed out wherever they are", "err", err)
	}
	d.Manager, err = devices.New(devices.Config{
		Dir: filepath.Join(n.cfg.Root, pluginSockets), NUMANodes: nodes,
		Ran: d.wasRunning, Expected: expectsPlugin, Changed: d.note, Hooks: newDeviceMetrics(n.cfg.metrics), Log: n.log,
	})
	n.devices = d
	return err
}

// expectsPlugin reports whether a resource that nobody has heard of has to come from a
// plugin: pods of manifests have been seen by no scheduler that knows better.
func expectsPlugin(pod *corev1.Pod, _ corev1.ResourceName) bool { return ofManifest(pod) }

// remember notes what runs before any pod is started.
func (d *deviceDesk) remember(a *agent) {
	if d == nil {
		return
	}
	ran := map[string]bool{}
	for uid, p := range a.snapshot.Load().Pods {
		for _, name := range runningContainers(p) {
			ran[string(uid)+"/"+name] = true
		}
	}
	d.ran.Store(&ran)
}

func (d *deviceDesk) wasRunning(uid types.UID, container string) bool {
	ran := d.ran.Load()
	return ran != nil && (*ran)[string(uid)+"/"+container]
}

// note takes the pods whose devices have changed.
func (d *deviceDesk) note(pods []types.UID) {
	d.await(pods...)
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// await has pods looked at again when devices have changed.
func (d *deviceDesk) await(pods ...types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, uid := range pods {
		d.due[uid] = true
	}
}

// tell has the status of the node, and the pods that it concerns, looked at again.
func (d *deviceDesk) tell() {
	d.mu.Lock()
	pods := slices.Collect(maps.Keys(d.due))
	clear(d.due)
	d.mu.Unlock()
	d.node.beat.wake()
	if a := d.node.agent.get(); a != nil {
		for _, uid := range pods {
			a.pool.Wake(uid)
		}
	}
}

// run follows the plugins until ctx ends.
func (d *deviceDesk) run(ctx context.Context) error {
	if d == nil {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.Run(ctx) })
	g.Go(func() error { return d.watch(ctx) })
	g.Go(func() error { return d.node.servePodResources(ctx) })
	g.Go(func() error {
		for {
			select {
			case <-d.wake:
				d.tell()
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// watch finds plugins in the directory of all kinds of them, unless the storage does.
func (d *deviceDesk) watch(ctx context.Context) error {
	if d.node.cfg.Client != nil && d.node.cfg.Plugins == nil {
		return nil
	}
	w, err := pluginwatch.New(pluginwatch.Config{
		Dir:      filepath.Join(d.node.cfg.Root, pluginsDir),
		Handlers: map[string]pluginwatch.Handler{pluginwatch.Devices: devicePlugins{d}},
		Log:      d.node.log,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// handlers returns handlers of plugins with that of devices.
func (d *deviceDesk) handlers(others map[string]pluginwatch.Handler) map[string]pluginwatch.Handler {
	if d != nil {
		others[pluginwatch.Devices] = devicePlugins{d}
	}
	return others
}

// devicePlugins are plugins that register in the directory of all kinds.
type devicePlugins struct{ desk *deviceDesk }

// Register implements pluginwatch.Handler.
func (p devicePlugins) Register(ctx context.Context, plugin pluginwatch.Plugin) error {
	return p.desk.Register(ctx, plugin.Name, plugin.Endpoint, plugin.Versions)
}

// Deregister implements pluginwatch.Handler.
func (p devicePlugins) Deregister(_ context.Context, plugin pluginwatch.Plugin) {
	p.desk.Deregister(plugin.Name, plugin.Endpoint)
}

// devicesForgotten reports whether nobody has kept who has which devices, as on a new machine
// under an old name: then the status of the Node is not to be believed.
func (n *Node) devicesForgotten() bool {
	_, err := os.Stat(filepath.Join(n.cfg.Root, pluginSockets, devices.CheckpointFile))
	return !n.cfg.Devices.None && errors.Is(err, fs.ErrNotExist)
}

// abilities are what is done for pods with devices.
func (d *deviceDesk) abilities() podspec.Ability {
	if d == nil {
		return 0
	}
	return podspec.Devices
}

// overlay shows what there is of devices in the status of the node.
func (d *deviceDesk) overlay(s *corev1.NodeStatus) {
	if d == nil {
		return
	}
	capacity, allocatable := d.Resources()
	s.Capacity, s.Allocatable = overlaid(s.Capacity, capacity), overlaid(s.Allocatable, allocatable)
}

// decides takes the devices out of a node that pods are admitted to: who gets which is
// decided when they are handed out.
func (d *deviceDesk) decides(n *corev1.Node) *corev1.Node {
	if d != nil {
		maps.DeleteFunc(n.Status.Allocatable, func(name corev1.ResourceName, _ resource.Quantity) bool { return d.Knows(name) })
	}
	return n
}

// equip has the devices of a pod that is admitted ready.
func (a *agent) equip(ctx context.Context, pod *corev1.Pod) admission.Decision {
	admitted := admission.Decision{Verdict: admission.Admitted}
	if a.devices == nil || a.runs(pod.UID) {
		return admitted
	}
	a.devices.await(pod.UID) // what is there changes meanwhile
	err := a.devices.give(ctx, pod)
	if err == nil {
		return admitted
	}
	reason, message := topology.Reason(err)
	d := admission.Decision{Verdict: admission.Never, Reason: reason, Message: message}
	lacks, ok := errors.AsType[*devices.UnavailableError](err)
	if !ok || lacks.NotYet() || ofManifest(pod) {
		// Nobody replaces a pod of a manifest that has failed. What fails otherwise, as the
		// disk, may do so no more.
		d.Verdict = admission.NotYet
	}
	return d
}

// give hands devices out to each container of a pod and asks their plugins.
func (d *deviceDesk) give(ctx context.Context, pod *corev1.Pod) error {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if err := d.Allocate(ctx, topology.Request{Pod: pod, Container: &list[i]}, topology.Hint{}); err != nil {
				return err
			}
		}
	}
	return d.Prepare(ctx, pod)
}

// extra is what a container is given of devices.
func (d *deviceDesk) extra(ctx context.Context, pod *corev1.Pod, c *corev1.Container) (podspec.Extra, error) {
	if d == nil {
		return podspec.Extra{}, nil
	}
	answer, err := d.Container(ctx, pod, c)
	if answer == nil || err != nil {
		return podspec.Extra{}, err
	}
	e := podspec.Extra{Annotations: answer.GetAnnotations()}
	for _, name := range slices.Sorted(maps.Keys(answer.GetEnvs())) {
		e.Envs = append(e.Envs, &runtimeapi.KeyValue{Key: name, Value: []byte(answer.GetEnvs()[name])})
	}
	for _, m := range answer.GetMounts() {
		e.Mounts = append(e.Mounts, &runtimeapi.Mount{ContainerPath: m.GetContainerPath(), HostPath: m.GetHostPath(), Readonly: m.GetReadOnly()})
	}
	for _, x := range answer.GetDevices() {
		e.Devices = append(e.Devices, &runtimeapi.Device{
			ContainerPath: x.GetContainerPath(), HostPath: x.GetHostPath(), Permissions: cmp.Or(x.GetPermissions(), "mrw"),
		})
	}
	for _, x := range answer.GetCdiDevices() {
		e.CDIDevices = append(e.CDIDevices, &runtimeapi.CDIDevice{Name: x.GetName()})
	}
	return e, nil
}

// health is that of the devices of a container.
func (d *deviceDesk) health(uid types.UID, container string) []corev1.ResourceStatus {
	if d == nil {
		return nil
	}
	return d.Health(uid, container)
}

// release takes back what a pod that has ended has.
func (d *deviceDesk) release(uid types.UID) {
	if d != nil {
		d.Release(uid)
	}
}

// retainDevices takes back what pods have that nobody wants and that do not run, as those
// that went while no agent ran.
func (a *agent) retainDevices() {
	if a.devices == nil || !a.catalog.ready() {
		return
	}
	snap := a.snapshot.Load()
	a.devices.Retain(func(uid types.UID) bool {
		s, known := a.pool.State(uid)
		return known && !s.Done() || !known && a.catalog.wants(uid) || len(runningContainers(snap.Pods[uid])) > 0
	})
}

// runningContainers returns the names of the containers of a pod that run.
func runningContainers(p *runtime.Pod) []string {
	var names []string
	if p != nil {
		for _, c := range p.Containers {
			if c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
				names = append(names, c.GetMetadata().GetName())
			}
		}
	}
	return names
}
