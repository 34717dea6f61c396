package runtime

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
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

// list gets all items of a list over a stream, in as many messages as the runtime likes,
// so that no list is too large for one message
// (https://github.com/kubernetes/enhancements/issues/5825). A runtime without the stream
// is asked by unary. name is that of the unary call, for errors. A stream that breaks
// gives an error, never a part of the list.
func list[T any](ctx context.Context, c *Client, name string, stream source[T], unary func() ([]T, error)) ([]T, error) {
	// No call has this name, so the memory of unary calls is another.
	streamed := name + " (stream)"
	if c.missing.has(streamed) {
		return unary()
	}
	o := c.op(name, "")
	bounded, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	items, trailer, err := stream(bounded)
	if err == nil {
		return items, nil
	}
	err = c.callError(o, err, trailer)
	if errors.Is(err, ErrUnimplemented) {
		c.missing.add(streamed)
		return unary()
	}
	return nil, err
}

// source gets the items of a stream and the trailer that came with an error.
type source[T any] func(context.Context) ([]T, metadata.MD, error)

// collect is the source of the items in the messages of a stream.
func collect[Req, Msg, T any](
	open func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Msg], error), req Req, items func(*Msg) []T,
) source[T] {
	return func(ctx context.Context) ([]T, metadata.MD, error) {
		stream, err := open(ctx, req)
		if err != nil {
			return nil, nil, err
		}
		var all []T
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return all, nil, nil
			}
			if err != nil {
				return nil, stream.Trailer(), err
			}
			all = append(all, items(m)...)
		}
	}
}
