package record

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// CRI is a proxy before a container runtime. It knows no method: whatever is called
// is passed on, streams included.
type CRI struct {
	conn   *grpc.ClientConn
	server *grpc.Server
	log    *Log
}

// NewCRI returns a proxy to the gRPC server at target, such as
// "unix:///run/containerd/containerd.sock". It does not connect yet.
func NewCRI(target string, log *Log) (*CRI, error) {
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(frames{}), grpc.MaxCallRecvMsgSize(anySize), grpc.MaxCallSendMsgSize(anySize)))
	if err != nil {
		return nil, fmt.Errorf("record: connect to %s: %w", target, err)
	}
	c := &CRI{conn: conn, log: log}
	c.server = grpc.NewServer(grpc.ForceServerCodecV2(frames{}), grpc.UnknownServiceHandler(c.pass),
		grpc.MaxRecvMsgSize(anySize), grpc.MaxSendMsgSize(anySize))
	return c, nil
}

// anySize leaves limits to the two ends.
const anySize = 1<<31 - 1

// Serve serves on l until ctx ends, and closes it.
func (c *CRI) Serve(ctx context.Context, l net.Listener) error {
	defer c.conn.Close()
	stop := context.AfterFunc(ctx, c.server.Stop)
	defer stop()
	if err := c.server.Serve(l); err != nil {
		return fmt.Errorf("record: serve: %w", err)
	}
	return nil
}

// pass hands one call on. Both directions of a call are streams of messages, of one
// message in most cases.
func (c *CRI) pass(_ any, down grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(down)
	if !ok {
		return status.Error(codes.Internal, "record: a call without a method")
	}
	c.log.Add(strings.TrimPrefix(method, "/"))
	ctx, cancel := context.WithCancel(down.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md.Copy())
	}
	up, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	// It ends when this function returns, which ends the client's stream.
	go requests(up, down)
	err = answers(down, up)
	down.SetTrailer(up.Trailer())
	return err
}

// requests copies what the client sends, to the end of that. Why a message can't be
// sent the answers tell.
func requests(up grpc.ClientStream, down grpc.ServerStream) {
	for {
		var m frame
		if err := down.RecvMsg(&m); err != nil {
			_ = up.CloseSend()
			return
		}
		err := up.SendMsg(&m)
		m.data.Free()
		if err != nil {
			return
		}
	}
}

// answers copies what the server sends, and returns the status of the call.
func answers(down grpc.ServerStream, up grpc.ClientStream) error {
	header, err := up.Header()
	if err != nil {
		return err
	}
	if err := down.SendHeader(header); err != nil {
		return err
	}
	for {
		var m frame
		err := up.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = down.SendMsg(&m)
		m.data.Free()
		if err != nil {
			return err
		}
	}
}

// frame is a message that nobody here reads.
type frame struct{ data mem.BufferSlice }

// frames is the codec of such messages. It has the name of the usual one, which is
// what the two ends speak.
type frames struct{}

// Name implements encoding.CodecV2.
func (frames) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (frames) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("record: marshal %T", v)
	}
	f.data.Ref()
	return f.data, nil
}

// Unmarshal implements encoding.CodecV2.
func (frames) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("record: unmarshal into %T", v)
	}
	data.Ref()
	f.data = data
	return nil
}
