package runtime

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
)

// missingCalls remembers which RPCs the runtime does not have, until the connection is
// lost: the runtime that comes back may be a newer one.
type missingCalls struct{ names sync.Map }

func (m *missingCalls) has(name string) bool {
	_, found := m.names.Load(name)
	return found
}

func (m *missingCalls) add(name string) { m.names.Store(name, nil) }
func (m *missingCalls) forget()         { m.names.Clear() }

// list gets all items of a list over stream, in as many messages as the runtime likes,
// so that no list is too large for one message
// (https://github.com/kubernetes/enhancements/issues/5825). A runtime without the stream
// is asked by unary. name is that of the unary call, for errors. A stream that breaks gives an error, never a part of the list.
func list[Req, Msg, T any](
	ctx context.Context, c *Client, name string,
	stream func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Msg], error), req Req,
	items func(*Msg) []T,
	unary func() ([]T, error),
) ([]T, error) {
	// No call has this name, so the memory of unary calls is another.
	streamed := name + " (stream)"
	if c.missing.has(streamed) {
		return unary()
	}
	found, err := receive(ctx, c, c.op(name, ""), stream, req, items)
	if errors.Is(err, ErrUnimplemented) {
		c.missing.add(streamed)
		return unary()
	}
	return found, err
}

// receive collects the items of a stream under o's deadline.
func receive[Req, Msg, T any](
	ctx context.Context, c *Client, o operation,
	stream func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Msg], error), req Req,
	items func(*Msg) []T,
) ([]T, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	s, err := stream(ctx, req)
	if err != nil {
		return nil, c.callError(o, err, nil)
	}
	var all []T
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, c.callError(o, err, s.Trailer())
		}
		all = append(all, items(m)...)
	}
}
