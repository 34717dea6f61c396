package devicestest

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nodekit-go/nodekit/internal/plugintest"
)

// Config is how a Plugin works. Resource is required, and Dir for Start.
type Config struct {
	// Dir is the directory of the sockets of device plugins, with that of the agent.
	Dir string
	// Registry is the directory in which plugins of all kinds register; empty: the plugin
	// registers on the socket of the agent in Dir.
	Registry string
	// Socket is the name of its own socket in Dir; empty: from the name of the resource.
	Socket string
	// Resource is the name of what it has, such as "example.com/gpu".
	Resource string
	// Devices are those that it lists at first.
	Devices []*deviceapi.Device
	// Prefer chooses among available devices; nil: it has no preference.
	Prefer func(available, must []string, size int) []string
	// PreStart says that it wants to be told before a container starts.
	PreStart bool
	// Answer says how a container gets at devices; nil: by a variable DEVICES with their
	// IDs.
	Answer func(ids []string) *deviceapi.ContainerAllocateResponse
}

// servers are those of a Plugin that was started.
type servers struct{ own, registry *plugintest.Server }

// Start serves a plugin and registers it: at once, or, with Config.Registry, by being
// found. Sockets that are there already are replaced.
func Start(ctx context.Context, cfg Config) (*Plugin, error) {
	p := New(cfg)
	var err error
	if p.own, err = plugintest.Serve(p.Endpoint(), func(s *grpc.Server) { deviceapi.RegisterDevicePluginServer(s, p) }); err != nil {
		return nil, fmt.Errorf("devicestest: %w", err)
	}
	if cfg.Registry == "" {
		err = p.Register(ctx)
	} else {
		p.registry, err = plugintest.Serve(filepath.Join(cfg.Registry, p.socket()), func(s *grpc.Server) {
			registerapi.RegisterRegistrationServer(s, registration{plugin: p})
		})
	}
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("devicestest: %w", err)
	}
	return p, nil
}

func (p *Plugin) socket() string {
	if p.cfg.Socket != "" {
		return p.cfg.Socket
	}
	return strings.ReplaceAll(p.cfg.Resource, "/", "-") + ".sock"
}

// Endpoint is the path of the socket on which it serves.
func (p *Plugin) Endpoint() string { return filepath.Join(p.cfg.Dir, p.socket()) }

// Register registers on the socket of the agent, kubelet.sock in Config.Dir.
func (p *Plugin) Register(ctx context.Context) error {
	agent := filepath.Join(p.cfg.Dir, "kubelet.sock")
	conn, err := grpc.NewClient("passthrough:///agent", grpc.WithAuthority("localhost"), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", agent)
		}))
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = deviceapi.NewRegistrationClient(conn).Register(ctx, &deviceapi.RegisterRequest{
		Version: deviceapi.Version, Endpoint: p.socket(), ResourceName: p.cfg.Resource,
	})
	if err != nil {
		return fmt.Errorf("register %s at %s: %w", p.cfg.Resource, agent, err)
	}
	return nil
}

// Stop ends the plugin and removes its sockets. It may be called more than once.
func (p *Plugin) Stop() {
	p.release()
	for _, s := range []*plugintest.Server{p.registry, p.own} {
		if s != nil {
			s.Stop()
		}
	}
}

// Kill ends the plugin and leaves its sockets.
func (p *Plugin) Kill() {
	p.release()
	for _, s := range []*plugintest.Server{p.registry, p.own} {
		if s != nil {
			s.Kill()
		}
	}
}

// registration tells who the plugin is.
type registration struct {
	registerapi.UnimplementedRegistrationServer
	plugin *Plugin
}

// GetInfo says that it has devices.
func (r registration) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.DevicePlugin, Name: r.plugin.cfg.Resource, Endpoint: r.plugin.Endpoint(), SupportedVersions: []string{deviceapi.Version},
	}, nil
}

// NotifyRegistrationStatus does nothing.
func (r registration) NotifyRegistrationStatus(context.Context, *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	return &registerapi.RegistrationStatusResponse{}, nil
}
