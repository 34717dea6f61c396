package grpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	grpclib "google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/nodekit-go/nodekit/probes/grpc"
)

func Example() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpclib.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	res, err := grpc.Prober{Addr: listener.Addr().String()}.Probe(ctx)
	fmt.Println(res.Outcome, res.Message, err)
	// Output: success service healthy <nil>
}
