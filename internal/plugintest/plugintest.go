// Package plugintest serves plugins of a node for tests: a gRPC server on a unix socket
// that can die like a process, which leaves its socket, and come again.
package plugintest

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
)

// Server serves on a socket. Make one with Serve.
type Server struct {
	socket  string
	server  *grpc.Server
	serving sync.WaitGroup
}

// Serve serves on the socket at a path of at most 107 bytes, with what register puts on
// the server. A socket that is there already is replaced, directories are made.
func Serve(socket string, register func(*grpc.Server)) (*Server, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("serve a plugin at %s: %w", socket, err)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("serve a plugin at %s: %w", socket, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("serve a plugin: %w", err)
	}
	l.SetUnlinkOnClose(false)
	s := &Server{socket: socket, server: grpc.NewServer()}
	register(s.server)
	s.serving.Go(func() { _ = s.server.Serve(l) }) // its error is that it was stopped
	return s, nil
}

// Kill ends the server and leaves its socket, as when a process is killed. It may be
// called more than once.
func (s *Server) Kill() {
	s.server.Stop()
	s.serving.Wait()
}

// Stop ends the server and removes its socket.
func (s *Server) Stop() {
	s.Kill()
	_ = os.Remove(s.socket) // another one may have replaced and removed it
}
