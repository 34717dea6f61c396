package grpc_test

import (
	"context"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	grpclib "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/grpc"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

const (
	short = 300 * time.Millisecond
	long  = 20 * time.Second
)

// serve runs a gRPC server on a port of its own until the test ends.
func serve(t *testing.T, service grpc_health_v1.HealthServer, opts ...grpclib.ServerOption) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpclib.NewServer(opts...)
	if service != nil {
		grpc_health_v1.RegisterHealthServer(server, service)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return listener.Addr().String()
}

// tlsCredentials returns those of a certificate that nobody has signed.
func tlsCredentials() credentials.TransportCredentials {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	return credentials.NewServerTLSFromCert(&s.TLS.Certificates[0])
}

// checker is a health service of one function.
type checker struct {
	grpc_health_v1.UnimplementedHealthServer
	check func(context.Context) (*grpc_health_v1.HealthCheckResponse, error)
}

func (c checker) Check(ctx context.Context, _ *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return c.check(ctx)
}

func healthServer() *health.Server {
	h := health.NewServer()
	h.SetServingStatus("db", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	h.SetServingStatus("cache", grpc_health_v1.HealthCheckResponse_SERVING)
	return h
}

func TestProbe(t *testing.T) {
	plain := serve(t, healthServer())
	secure := serve(t, healthServer(), grpclib.Creds(tlsCredentials()))
	none := serve(t, nil)
	slow := serve(t, checker{check: func(ctx context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	broken := serve(t, checker{check: func(context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		return nil, status.Error(codes.Internal, "oh\xff"+strings.Repeat("n", 2*probes.MaxOutput))
	}})
	silent := probestest.Raw(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 1<<10)) })
	closed := probestest.Unused(t)
	tests := []struct {
		name    string
		health  probes.GRPCHealth
		timeout time.Duration
		want    probes.Outcome
		text    string
	}{
		{"serving", probes.GRPCHealth{Addr: plain}, long, probes.Success, "service healthy"},
		{"a service that serves", probes.GRPCHealth{Addr: plain, Service: "cache"}, long, probes.Success, "service healthy"},
		{"a service that does not", probes.GRPCHealth{Addr: plain, Service: "db"}, long, probes.Failure, `service unhealthy (responded with "NOT_SERVING")`},
		{"an unknown service", probes.GRPCHealth{Addr: plain, Service: "x"}, long, probes.Failure, "error: health rpc probe failed: rpc error: code = NotFound"},
		{"TLS", probes.GRPCHealth{Addr: secure, TLS: true}, long, probes.Success, "service healthy"},
		{"clear text to TLS", probes.GRPCHealth{Addr: secure}, short, probes.Failure, "timeout: failed to connect service"},
		{"TLS to clear text", probes.GRPCHealth{Addr: plain, TLS: true}, short, probes.Failure, "timeout: failed to connect service"},
		{
			"no health service",
			probes.GRPCHealth{Addr: none},
			long, probes.Failure,
			"error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service",
		},
		{"slow", probes.GRPCHealth{Addr: slow}, short, probes.Failure, "timeout: health rpc did not complete within "},
		{"broken", probes.GRPCHealth{Addr: broken}, long, probes.Failure, "code = Internal desc = oh"},
		{"not gRPC", probes.GRPCHealth{Addr: silent}, short, probes.Failure, "timeout: failed to connect service"},
		{"nobody there", probes.GRPCHealth{Addr: closed}, short, probes.Failure, "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
			defer cancel()
			res, err := grpc.New(tt.health).Probe(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if res.Outcome != tt.want || !strings.Contains(res.Message, tt.text) || len(res.Message) > probes.MaxOutput {
				t.Errorf("got %v %q, want %v with %q", res.Outcome, res.Message, tt.want, tt.text)
			}
		})
	}
}

func TestCancelledAttemptHasNoAnswer(t *testing.T) {
	asked := make(chan struct{})
	addr := serve(t, checker{check: func(ctx context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
		close(asked)
		<-ctx.Done()
		return nil, ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if res, err := (grpc.Prober{Addr: addr}).Probe(ctx); err == nil {
		t.Errorf("got %+v, want an error", res)
	}
	if res, err := (grpc.Prober{Addr: addr}).Probe(ctx); err == nil {
		t.Errorf("before it began: got %+v, want an error", res)
	}
}

func TestUserAgent(t *testing.T) {
	for _, agent := range []string{"", "me/1"} {
		var got []string
		addr := serve(t, checker{check: func(ctx context.Context) (*grpc_health_v1.HealthCheckResponse, error) {
			md, _ := metadata.FromIncomingContext(ctx)
			got = md.Get("user-agent")
			return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
		}})
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		if res, err := (grpc.Prober{Addr: addr, UserAgent: agent}).Probe(ctx); err != nil || res.Outcome != probes.Success {
			t.Fatalf("%v, %v", res, err)
		}
		want := agent
		if want == "" {
			want = probes.UserAgent
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], want+" ") {
			t.Errorf("user agent is %q, want %q and what gRPC adds", got, want)
		}
	}
}

// A proxy of the environment has no say in where a probe goes.
func TestProxyIsIgnored(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://"+probestest.Unused(t))
	addr := serve(t, healthServer())
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	res, err := grpc.Prober{Addr: addr}.Probe(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(probes.Result{Outcome: probes.Success, Message: "service healthy"}, res); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}
