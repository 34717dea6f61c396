package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/nodekit-go/nodekit/probes"
)

// Prober asks a gRPC health service. It is a probes.Prober.
type Prober probes.GRPCHealth

// New returns the Prober of a health service.
func New(h probes.GRPCHealth) probes.Prober { return Prober(h) }

// Probe makes one attempt: it connects, trying again until ctx ends, and asks.
// SERVING is a Success; any other answer, and none, is a Failure.
func (p Prober) Probe(ctx context.Context) (probes.Result, error) {
	a := attempt{Prober: p}
	if deadline, ok := ctx.Deadline(); ok {
		// A little of it is gone already.
		a.timeout = (time.Until(deadline) + 10*time.Millisecond - 1).Truncate(10 * time.Millisecond)
	}
	conn, err := a.client()
	if err != nil {
		return probes.Result{}, fmt.Errorf("make a gRPC client for %q: %w", p.Addr, err)
	}
	defer conn.Close()
	if err := connect(ctx, conn); err != nil {
		return a.unconnected(err)
	}
	client := grpc_health_v1.NewHealthClient(conn)
	resp, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: p.Service})
	if errors.Is(ctx.Err(), context.Canceled) {
		return probes.Result{}, ctx.Err()
	}
	if err != nil {
		return a.unanswered(err), nil
	}
	if s := resp.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return probes.Failed("service unhealthy (responded with %q)", s), nil
	}
	return probes.Result{Outcome: probes.Success, Message: "service healthy"}, nil
}

// attempt is one attempt.
type attempt struct {
	Prober
	timeout  time.Duration // for messages; zero for none
	lastDial atomic.Pointer[error]
}

// client returns a connection that has not been made yet.
func (a *attempt) client() (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if a.TLS {
		// A container's certificate is rarely made out to its address; the API defines
		// these probes as unverified.
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	agent := a.UserAgent
	if agent == "" {
		agent = probes.UserAgent
	}
	// What follows passthrough is dialled as it is: no name service and no proxy of the
	// environment decides where the probe goes.
	return grpc.NewClient("passthrough:///"+a.Addr,
		grpc.WithTransportCredentials(creds),
		grpc.WithContextDialer(a.dial),
		grpc.WithUserAgent(agent),
		grpc.WithDisableServiceConfig(),
	)
}

func (a *attempt) dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := probes.Dial(ctx, addr)
	if err != nil {
		a.lastDial.Store(&err)
	}
	return conn, err
}

// connect waits until conn is ready.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	conn.Connect()
	for {
		s := conn.GetState()
		if s == connectivity.Ready {
			return nil
		}
		if s == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, s) {
			return ctx.Err()
		}
	}
}

// unconnected returns what to make of a connection that was not made until err
// ended the attempt.
func (a *attempt) unconnected(err error) (probes.Result, error) {
	if !errors.Is(err, context.DeadlineExceeded) {
		return probes.Result{}, err
	}
	if last := a.lastDial.Load(); last != nil {
		if errors.Is(*last, probes.ErrLocal) {
			return probes.Result{}, *last
		}
		err = *last
	}
	return probes.Failed("timeout: failed to connect service %q within %s: %v", a.Addr, a.timeout, err), nil
}

// unanswered returns the Failure of a Check that ended with err.
func (a *attempt) unanswered(err error) probes.Result {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Unimplemented:
		return probes.Failed("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): %s", s.Message())
	case codes.DeadlineExceeded:
		return probes.Failed("timeout: health rpc did not complete within %s", a.timeout)
	}
	return probes.Failed("error: health rpc probe failed: %v", err)
}
