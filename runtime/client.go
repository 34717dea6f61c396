package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// The kubelet's own figures, so that a runtime sees the same client.
const (
	// defaultTimeout is the default of the kubelet's runtimeRequestTimeout
	// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/).
	defaultTimeout = 2 * time.Minute
	// defaultMaxMessageSize is the receive limit of the kubelet's CRI client. gRPC's
	// own default of 4 MiB is too small for a node with many dead containers.
	defaultMaxMessageSize = 16 << 20
	// A lost connection is retried after reconnectMin, growing to reconnectMax.
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 3 * time.Second
	// connectTimeout is the least time one connection attempt is given.
	connectTimeout = 5 * time.Second
	// versionRequest is the version that every CRI client states in Version: the
	// version of the kubelet's runtime API, frozen long before CRI v1.
	versionRequest = "0.1.0"
)

// Config adjusts a Client. The zero value is ready for use.
type Config struct {
	// Timeout bounds every call that has no limit of its own; zero means two
	// minutes. RunPodSandbox gets twice as long, StopContainer and ExecSync get
	// Timeout on top of what the caller grants the container, and PullImage has no
	// limit but its context. A negative Timeout is an error of Dial.
	Timeout time.Duration
	// MaxMessageSize is the largest answer taken from the runtime, in bytes; zero
	// means 16 MiB. A larger answer is ErrTooLarge, never an empty list.
	MaxMessageSize int
	// Dialer opens a connection to the socket at path; nil means a unix socket.
	// It lets a test reach a runtime inside its own process.
	Dialer func(ctx context.Context, path string) (net.Conn, error)
	// Called is told of each call that has ended: the method of CRI, as in
	// "RunPodSandbox", how long it took and its error. It is called by many goroutines
	// and must not block; nil: nobody is told. Streams are not told of.
	Called func(method string, took time.Duration, err error)
	// Trace is told of each call and stream as gRPC carries it out, and may add to its
	// metadata, as NewClientHandler of OpenTelemetry's otelgrpc does; nil: nobody is told,
	// which costs nothing.
	Trace stats.Handler
}

func (cfg Config) validate() error {
	if cfg.Timeout < 0 {
		return fmt.Errorf("runtime: Config.Timeout is %v, want 0 (two minutes) or more", cfg.Timeout)
	}
	if cfg.MaxMessageSize < 0 {
		return fmt.Errorf("runtime: Config.MaxMessageSize is %d bytes, want 0 (16 MiB) or more", cfg.MaxMessageSize)
	}
	return nil
}

func (cfg Config) withDefaults() Config {
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.MaxMessageSize == 0 {
		cfg.MaxMessageSize = defaultMaxMessageSize
	}
	if cfg.Dialer == nil {
		cfg.Dialer = dialUnix
	}
	return cfg
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// Client talks CRI v1 with one container runtime. Its methods may be called from
// many goroutines at once; each returns an *OpError or nil. It connects when a
// call needs it, and again after the runtime was restarted: calls made while the
// runtime is away fail at once with ErrRuntimeDown, they do not queue.
type Client struct {
	endpoint string
	timeout  time.Duration
	conn     *grpc.ClientConn
	runtime  runtimeapi.RuntimeServiceClient
	images   runtimeapi.ImageServiceClient
	closed   atomic.Bool
	missing  missingCalls
	// shown is what the last Snapshot saw; nil: there was none.
	shown atomic.Pointer[shown]
}

// Dial connects to the runtime at endpoint, "unix:///run/containerd/containerd.sock"
// or the plain path of the socket, and asks for its version within ctx. It does
// not wait for a runtime that is down: the error is ErrRuntimeDown and the caller
// decides when to try again. A runtime without CRI v1 is ErrUnimplemented.
// Whoever dials must Close. The socket usually belongs to root.
func Dial(ctx context.Context, endpoint string, cfg Config) (*Client, error) {
	c, err := newClient(endpoint, cfg)
	if err != nil {
		return nil, err
	}
	if _, err := c.Version(ctx, versionRequest); err != nil {
		if errors.Is(err, ErrUnimplemented) {
			err = fmt.Errorf("%w (the runtime does not serve CRI v1; containerd does from 1.6)", err)
		}
		return nil, errors.Join(fmt.Errorf("connect to container runtime at %s: %w", c.endpoint, err), c.Close())
	}
	return c, nil
}

// newClient makes a Client without talking to the runtime.
func newClient(endpoint string, cfg Config) (*Client, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	path, err := socketPath(endpoint)
	if err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	conn, err := grpc.NewClient("passthrough:///"+path, append(cfg.traced(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(cfg.Dialer),
		// A path is no valid :authority; gRPC's own unix resolver says localhost too.
		grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(cfg.MaxMessageSize)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: reconnectMin, Multiplier: 1.6, Jitter: 0.2, MaxDelay: reconnectMax},
			MinConnectTimeout: connectTimeout,
		}),
		// A node agent calls every second; an idle timer would only add a state.
		grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig(),
		grpc.WithUnaryInterceptor(cfg.observe),
	)...)
	if err != nil {
		return nil, fmt.Errorf("runtime: prepare connection to %s: %w", endpoint, err)
	}
	return &Client{
		endpoint: "unix://" + path,
		timeout:  cfg.Timeout,
		conn:     conn,
		runtime:  runtimeapi.NewRuntimeServiceClient(conn),
		images:   runtimeapi.NewImageServiceClient(conn),
	}, nil
}

// traced are the options by which calls are traced.
func (cfg Config) traced() []grpc.DialOption {
	if cfg.Trace == nil {
		return nil
	}
	return []grpc.DialOption{grpc.WithStatsHandler(cfg.Trace)}
}

// observe makes a call and tells of it.
func (c Config) observe(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error { //nolint:revive // the arguments are gRPC's
	if c.Called == nil {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	began := time.Now()
	err := invoke(ctx, method, req, reply, conn, opts...)
	c.Called(method[strings.LastIndexByte(method, '/')+1:], time.Since(began), err)
	return err
}

// Endpoint returns the address of the runtime, always with the scheme unix.
func (c *Client) Endpoint() string { return c.endpoint }

// Close ends the connection. Calls in flight and later ones fail with ErrClosed.
// A second Close does nothing.
func (c *Client) Close() error {
	if c.closed.Swap(true) {
		return nil
	}
	if err := c.conn.Close(); err != nil {
		return fmt.Errorf("runtime: close connection to %s: %w", c.endpoint, err)
	}
	return nil
}
