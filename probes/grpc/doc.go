// Package grpc probes containers by the gRPC health service, grpc.health.v1. It is
// apart from package probes so that only those who need it import gRPC.
//
//	res, err := grpc.Prober{Addr: "10.244.1.7:50051"}.Probe(ctx)
//
// New fits the field GRPC of probes.Clients. A Prober is a plain value, safe for
// use by several goroutines, and needs no privileges. It watches nothing: each
// attempt is one connection and one Check.
package grpc
