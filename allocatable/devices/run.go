package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	deviceapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// socketName is that of the socket on which plugins register.
	socketName = "kubelet.sock"
	// dirMode and fileMode are those of the directory and the checkpoint, the kubelet's.
	dirMode  = 0o750
	fileMode = 0o600
	// checks is how often within its grace it is asked whether a plugin has been away for
	// too long.
	checks = 30
)

// Run listens on the socket on which plugins register and reads their lists, until ctx
// ends; then it returns nil. Sockets of plugins that an earlier process left are removed,
// by which plugins notice that they have to register anew.
func (m *Manager) Run(ctx context.Context) error {
	listener, err := m.listen(ctx)
	if err != nil {
		return fmt.Errorf("devices: %w", err)
	}
	server := grpc.NewServer()
	deviceapi.RegisterRegistrationServer(server, registration{manager: m})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- server.Serve(listener)
	}()
	m.follow(ctx)
	server.Stop()
	if err := <-served; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("devices: serve the registration of plugins: %w", err)
	}
	return nil
}

// listen opens the socket in a directory without others.
func (m *Manager) listen(ctx context.Context) (net.Listener, error) {
	if err := os.MkdirAll(m.cfg.Dir, dirMode); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(m.cfg.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Type() != fs.ModeSocket {
			continue
		}
		if err := os.Remove(filepath.Join(m.cfg.Dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("remove the socket that an earlier process left: %w", err)
		}
	}
	var lc net.ListenConfig
	return lc.Listen(ctx, "unix", filepath.Join(m.cfg.Dir, socketName))
}

// follow reads the lists of plugins until ctx ends, and sees to what takes time.
func (m *Manager) follow(ctx context.Context) {
	var lists sync.WaitGroup
	defer lists.Wait()
	check := time.NewTicker(m.cfg.Grace / checks)
	defer check.Stop()
	for {
		select {
		case p := <-m.arrivals: // it is registered
			lists.Go(func() { m.read(ctx, p) })
			continue
		case <-check.C: // a plugin may have been away for too long
			m.mu.Lock()
			gone := m.offers.expire(time.Now(), m.cfg.Grace)
			m.unsaved = m.unsaved || gone
			m.mu.Unlock()
			if gone {
				m.cfg.Changed(nil)
			}
		case <-m.wake: // something is to be saved
		case <-ctx.Done():
			return
		}
		if err := m.save(); err != nil {
			m.log.Error("who has which devices is not saved, it is tried again", "err", err)
		}
	}
}

// read follows the list of a plugin to its end.
func (m *Manager) read(ctx context.Context, p *plugin) {
	defer p.close()
	err := p.watch(ctx, func(devices map[string]Device) { m.listed(p, devices) })
	if ctx.Err() == nil { // else the agent ends: the plugin is still there
		m.left(p, err)
	}
}

// registration serves the socket.
type registration struct {
	deviceapi.UnimplementedRegistrationServer
	manager *Manager
}

// Register takes a plugin, which has to serve already.
func (s registration) Register(ctx context.Context, r *deviceapi.RegisterRequest) (*deviceapi.Empty, error) {
	m := s.manager
	if m.cfg.Hooks.Registered != nil {
		m.cfg.Hooks.Registered(r.GetResourceName())
	}
	err := checkVersions(r.GetVersion())
	if err == nil && !filepath.IsLocal(r.GetEndpoint()) {
		err = fmt.Errorf("the endpoint %q is not the name of a socket beside %s", r.GetEndpoint(), socketName)
	}
	if err == nil {
		err = m.register(ctx, r.GetResourceName(), filepath.Join(m.cfg.Dir, r.GetEndpoint()))
	}
	if err != nil {
		m.log.Warn("device plugin is refused", "resource", r.GetResourceName(), "endpoint", r.GetEndpoint(), "err", err)
		return nil, status.Error(codes.Unknown, err.Error())
	}
	return &deviceapi.Empty{}, nil
}
