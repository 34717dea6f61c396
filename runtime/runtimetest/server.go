package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

// memoryPath stands for the socket of a server in memory, so that it has an endpoint
// like any other.
const memoryPath = "/runtimetest"

// maxMessageSize is what containerd accepts and sends: 16 MiB.
const maxMessageSize = 16 << 20

// Config describes a runtime. The zero value is one that listens in memory, in which
// every image can be pulled and every container runs until it is stopped.
type Config struct {
	// Socket is the path of the unix socket to listen on. Empty means none: clients
	// connect in memory, through DialContext, which also works inside a
	// testing/synctest bubble.
	Socket string
	// Kind is whose ways the server has where runtimes differ.
	Kind Kind
	// Lacks names calls of CRI that the runtime does not have, besides those that its
	// Kind does not have: "GetContainerEvents". They are not in the record of calls.
	Lacks []string
	// Images are the images the runtime has or can pull. Nil means that any name can be
	// pulled without delay.
	Images []Image
	// Script decides how a container lives once it is started; nil, or a nil result,
	// means that it runs until it is stopped. It is called with no lock held. Lives of
	// SetLives go first.
	Script func(Instance) *Life
	// Exec answers ExecSync; nil means exit code 0 and no output.
	Exec func(context.Context, Exec) ExecResult
	// PodCIDRs are the ranges of pod addresses, one a family; empty means
	// 10.88.0.0/16. A sandbox gets one address of each, in this order.
	PodCIDRs []netip.Prefix
	// StreamingURL is what the answers of Exec, Attach and PortForward begin with, at
	// which nobody need listen. Empty means that the runtime does not have these calls,
	// unless ServeStreams gives it.
	StreamingURL string
	// Forward handles a connection to a port of a pod until it returns; an error is told
	// to the client. Nil refuses all connections.
	Forward func(ctx context.Context, pod *runtimeapi.PodSandboxConfig, port int32, conn io.ReadWriteCloser) error
}

// Server is a container runtime for tests, serving CRI v1. Its methods may be called
// from many goroutines at once.
type Server struct {
	cfg    Config
	world  *world
	calls  callLog
	faults faults

	// mu guards what Up and Down change.
	mu      sync.Mutex
	grpc    *grpc.Server
	memory  *pipeListener
	serving sync.WaitGroup
}

// New returns a runtime that does not listen yet: call Up, and Close at the end.
func New(cfg Config) (*Server, error) {
	w, err := newWorld(cfg)
	if err != nil {
		return nil, err
	}
	return &Server{cfg: cfg, world: w}, nil
}

// Start returns a runtime that listens, and closes it when the test ends.
func Start(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	s, err := New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Up(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// StartUnix is Start on a unix socket in a directory of its own, whatever cfg.Socket
// says.
func StartUnix(tb testing.TB, cfg Config) *Server {
	tb.Helper()
	dir, err := os.MkdirTemp("", "cri") //nolint:usetesting // tb.TempDir can be longer than the path of a socket may be.
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	cfg.Socket = filepath.Join(dir, "cri.sock")
	return Start(tb, cfg)
}

// Endpoint is the address to give to runtime.Dial, together with DialContext if the
// server is in memory.
func (s *Server) Endpoint() string {
	if s.cfg.Socket == "" {
		return "unix://" + memoryPath
	}
	return "unix://" + s.cfg.Socket
}

// DialContext connects to the server; it is a runtime.Config.Dialer. path is ignored.
// It fails while the server is down.
func (s *Server) DialContext(ctx context.Context, _ string) (net.Conn, error) {
	if s.cfg.Socket != "" {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.cfg.Socket)
	}
	s.mu.Lock()
	lis := s.memory
	s.mu.Unlock()
	if lis == nil {
		return nil, &net.OpError{Op: "dial", Net: "memory", Err: errDown}
	}
	return lis.dial(ctx)
}

// errDown is why a server in memory cannot be reached.
var errDown = errors.New("the runtime is down")

// Client returns a client of the server, which it closes when the test ends.
func (s *Server) Client(tb testing.TB) *runtime.Client {
	tb.Helper()
	c, err := runtime.Dial(tb.Context(), s.Endpoint(), runtime.Config{Dialer: s.DialContext})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Up begins to serve. It does nothing if the server is up.
func (s *Server) Up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.grpc != nil {
		return nil
	}
	lis, err := s.listenLocked()
	if err != nil {
		return err
	}
	gs := grpc.NewServer(
		grpc.UnaryInterceptor(s.interceptUnary),
		grpc.StreamInterceptor(s.interceptStream),
		grpc.MaxRecvMsgSize(maxMessageSize),
		grpc.WaitForHandlers(true),
	)
	runtimeapi.RegisterRuntimeServiceServer(gs, &runtimeService{world: s.world})
	runtimeapi.RegisterImageServiceServer(gs, &imageService{world: s.world})
	s.grpc = gs
	s.serving.Go(func() {
		// Serve returns nil after Stop; the listener is ours and has no other error.
		_ = gs.Serve(lis)
	})
	return nil
}

func (s *Server) listenLocked() (net.Listener, error) {
	if s.cfg.Socket == "" {
		s.memory = newPipeListener()
		return s.memory, nil
	}
	lis, err := net.Listen("unix", s.cfg.Socket)
	if err != nil {
		return nil, fmt.Errorf("runtimetest: listen: %w", err)
	}
	return lis, nil
}

// Down breaks all connections and refuses new ones, as if the runtime's process had
// died. Containers go on living, as they do under a real runtime. Up ends it; call
// Forget in between for a runtime that lost its state.
func (s *Server) Down() {
	s.mu.Lock()
	gs := s.grpc
	s.grpc, s.memory = nil, nil
	s.mu.Unlock()
	if gs != nil {
		gs.Stop()
	}
	s.serving.Wait()
}

// Forget drops all sandboxes and containers, as a wiped state directory does. Images
// stay. Ids and addresses are not used again.
func (s *Server) Forget() { s.world.forget() }

// Close is Down, and the end of all containers' lives.
func (s *Server) Close() {
	s.Down()
	s.world.forget()
	s.world.attached.Wait()
}
