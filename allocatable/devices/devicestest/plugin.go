package devicestest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Healthy returns a device that containers can use, close to these NUMA nodes.
func Healthy(id string, nodes ...int64) *deviceapi.Device {
	d := &deviceapi.Device{ID: id, Health: deviceapi.Healthy}
	if len(nodes) > 0 {
		d.Topology = &deviceapi.TopologyInfo{}
		for _, n := range nodes {
			d.Topology.Nodes = append(d.Topology.Nodes, &deviceapi.NUMANode{ID: n})
		}
	}
	return d
}

// Unhealthy returns a device that containers cannot use.
func Unhealthy(id string) *deviceapi.Device {
	return &deviceapi.Device{ID: id, Health: deviceapi.Unhealthy}
}

// Call is one that came.
type Call struct {
	// RPC is its name, such as "Allocate".
	RPC string
	// IDs are the devices it was about: those to choose from for GetPreferredAllocation.
	IDs []string
}

// Plugin is a device plugin. Make one with New or Start.
type Plugin struct {
	deviceapi.UnimplementedDevicePluginServer
	cfg Config

	mu      sync.Mutex // guards the fields below
	devices []*deviceapi.Device
	// changed is closed when devices are others.
	changed chan struct{}
	calls   []Call
	faults  map[string]error
	// hung has a channel for each RPC that does not answer, closed when it does again.
	hung map[string]chan struct{}

	servers
}

// New returns a Plugin that serves nowhere yet.
func New(cfg Config) *Plugin {
	return &Plugin{
		cfg: cfg, devices: cfg.Devices, changed: make(chan struct{}),
		faults: map[string]error{}, hung: map[string]chan struct{}{},
	}
}

// List makes the plugin list these devices from now on.
func (p *Plugin) List(devices ...*deviceapi.Device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.devices = devices
	close(p.changed)
	p.changed = make(chan struct{})
}

// Fail makes an RPC fail, with nil succeed. ListAndWatch ends with the error at once.
func (p *Plugin) Fail(rpc string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults[rpc] = err
	close(p.changed)
	p.changed = make(chan struct{})
}

// Hang makes an RPC answer nothing until the returned function is called.
func (p *Plugin) Hang(rpc string) (release func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hung := make(chan struct{})
	p.hung[rpc] = hung
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		close(hung)
		if p.hung[rpc] == hung {
			delete(p.hung, rpc)
		}
	})
}

// Calls returns what the plugin was asked, in order.
func (p *Plugin) Calls(rpcs ...string) []Call {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.calls), func(c Call) bool { return len(rpcs) > 0 && !slices.Contains(rpcs, c.RPC) })
}

// enter notes a call, and waits and fails as it was told to.
func (p *Plugin) enter(ctx context.Context, rpc string, ids []string) error {
	p.mu.Lock()
	p.calls = append(p.calls, Call{RPC: rpc, IDs: slices.Clone(ids)})
	hung, fault := p.hung[rpc], p.faults[rpc]
	p.mu.Unlock()
	if hung == nil {
		return fault
	}
	select {
	case <-hung:
		return fault
	case <-ctx.Done():
		return ctx.Err()
	}
}

// GetDevicePluginOptions says what Config.Options says.
func (p *Plugin) GetDevicePluginOptions(ctx context.Context, _ *deviceapi.Empty) (*deviceapi.DevicePluginOptions, error) {
	if err := p.enter(ctx, "GetDevicePluginOptions", nil); err != nil {
		return nil, err
	}
	return &deviceapi.DevicePluginOptions{PreStartRequired: p.cfg.PreStart, GetPreferredAllocationAvailable: p.cfg.Prefer != nil}, nil
}

// ListAndWatch lists the devices at once, and again each time they are others.
func (p *Plugin) ListAndWatch(_ *deviceapi.Empty, stream deviceapi.DevicePlugin_ListAndWatchServer) error {
	if err := p.enter(stream.Context(), "ListAndWatch", nil); err != nil {
		return err
	}
	for {
		p.mu.Lock()
		devices, changed, fault := p.devices, p.changed, p.faults["ListAndWatch"]
		p.mu.Unlock()
		if fault != nil {
			return fault
		}
		if err := stream.Send(&deviceapi.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// GetPreferredAllocation answers with Config.Prefer.
func (p *Plugin) GetPreferredAllocation(ctx context.Context, r *deviceapi.PreferredAllocationRequest) (*deviceapi.PreferredAllocationResponse, error) {
	out := &deviceapi.PreferredAllocationResponse{}
	for _, c := range r.GetContainerRequests() {
		if err := p.enter(ctx, "GetPreferredAllocation", c.GetAvailableDeviceIDs()); err != nil {
			return nil, err
		}
		out.ContainerResponses = append(out.ContainerResponses, &deviceapi.ContainerPreferredAllocationResponse{
			DeviceIDs: p.cfg.Prefer(c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize())),
		})
	}
	return out, nil
}

// Allocate answers with Config.Answer.
func (p *Plugin) Allocate(ctx context.Context, r *deviceapi.AllocateRequest) (*deviceapi.AllocateResponse, error) {
	out := &deviceapi.AllocateResponse{}
	for _, c := range r.GetContainerRequests() {
		if err := p.enter(ctx, "Allocate", c.GetDevicesIds()); err != nil {
			return nil, err
		}
		out.ContainerResponses = append(out.ContainerResponses, p.answer(c.GetDevicesIds()))
	}
	return out, nil
}

func (p *Plugin) answer(ids []string) *deviceapi.ContainerAllocateResponse {
	if p.cfg.Answer != nil {
		return p.cfg.Answer(ids)
	}
	return &deviceapi.ContainerAllocateResponse{Envs: map[string]string{"DEVICES": strings.Join(ids, ",")}}
}

// PreStartContainer does nothing.
func (p *Plugin) PreStartContainer(ctx context.Context, r *deviceapi.PreStartContainerRequest) (*deviceapi.PreStartContainerResponse, error) {
	if err := p.enter(ctx, "PreStartContainer", r.GetDevicesIds()); err != nil {
		return nil, err
	}
	return &deviceapi.PreStartContainerResponse{}, nil
}

// release lets everything that hangs go on.
func (p *Plugin) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for rpc, hung := range maps.Clone(p.hung) {
		close(hung)
		delete(p.hung, rpc)
	}
}
