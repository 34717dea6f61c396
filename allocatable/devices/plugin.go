package devices

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// connectTimeout bounds how long a plugin may take to say what it can when it
	// registers, as in the kubelet.
	connectTimeout = 10 * time.Second
	// preStartTimeout is that of PreStartContainer, which may reset a device
	// (k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1, KubeletPreStartContainerRPCTimeoutInSecs).
	preStartTimeout = deviceapi.KubeletPreStartContainerRPCTimeoutInSecs * time.Second
)

// plugin is a connection to a device plugin.
type plugin struct {
	resource, socket string
	options          *deviceapi.DevicePluginOptions
	client           deviceapi.DevicePluginClient
	// close ends the connection, and with it the calls that are out.
	close func()
	// list is what it listed last; nil: nothing yet. The Manager guards it.
	list map[string]Device
}

// dialer connects to a plugin. The connection is made by the first call.
type dialer func(socket string) (deviceapi.DevicePluginClient, func(), error)

func dial(socket string) (deviceapi.DevicePluginClient, func(), error) {
	c, err := grpc.NewClient("passthrough:///plugin",
		grpc.WithAuthority("localhost"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", socket)
		}))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	return deviceapi.NewDevicePluginClient(c), func() { _ = c.Close() }, nil // a second time it is an error without a meaning
}

// connect asks a plugin what it can.
func (d dialer) connect(ctx context.Context, resource, socket string) (*plugin, error) {
	client, shut, err := d(socket)
	if err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	options, err := client.GetDevicePluginOptions(bounded, &deviceapi.Empty{}, grpc.WaitForReady(true))
	if err != nil {
		shut()
		return nil, fmt.Errorf("failed to get device plugin options: %w", err) // the kubelet's text
	}
	return &plugin{resource: resource, socket: socket, options: options, client: client, close: shut}, nil
}

// watch passes each list of devices on, until the plugin ends the stream or ctx ends.
func (p *plugin) watch(ctx context.Context, listed func(map[string]Device)) error {
	stream, err := p.client.ListAndWatch(ctx, &deviceapi.Empty{})
	if err != nil {
		return err
	}
	for {
		answer, err := stream.Recv()
		if err != nil {
			return err
		}
		listed(listedDevices(answer.GetDevices()))
	}
}

// prefer asks which of the devices the plugin would rather hand out; nil if it does not
// say such things.
func (p *plugin) prefer(ctx context.Context, o *options, count int) ([]string, error) {
	if !p.options.GetGetPreferredAllocationAvailable() {
		return nil, nil
	}
	answer, err := p.client.GetPreferredAllocation(ctx, &deviceapi.PreferredAllocationRequest{
		ContainerRequests: []*deviceapi.ContainerPreferredAllocationRequest{{
			AvailableDeviceIDs: o.offered, MustIncludeDeviceIDs: o.got, AllocationSize: int32(min(count, 1<<30)), //nolint:gosec // bounded
		}},
	})
	if err != nil {
		return nil, callFailed(ctx, p.resource, "GetPreferredAllocation", err)
	}
	if len(answer.GetContainerResponses()) == 0 {
		return nil, nil
	}
	return answer.GetContainerResponses()[0].GetDeviceIDs(), nil
}

// allocate asks how a container gets at devices.
func (p *plugin) allocate(ctx context.Context, ids []string) (*deviceapi.ContainerAllocateResponse, error) {
	answer, err := p.client.Allocate(ctx, &deviceapi.AllocateRequest{
		ContainerRequests: []*deviceapi.ContainerAllocateRequest{{DevicesIds: ids}},
	})
	if err != nil {
		return nil, callFailed(ctx, p.resource, "Allocate", err)
	}
	if len(answer.GetContainerResponses()) == 0 {
		return nil, never(p.resource, "no containers return in allocation response %v", answer)
	}
	return answer.GetContainerResponses()[0], nil
}

// preStart has the plugin prepare the devices of a container that is to be created.
func (p *plugin) preStart(ctx context.Context, ids []string) error {
	if !p.options.GetPreStartRequired() {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, preStartTimeout)
	defer cancel()
	if _, err := p.client.PreStartContainer(bounded, &deviceapi.PreStartContainerRequest{DevicesIds: ids}); err != nil {
		return notYet(p.resource, "device plugin PreStartContainer rpc failed with err: %w", err)
	}
	return nil
}
