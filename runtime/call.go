package runtime

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// operation names one call: the RPC, what it is about, and how long it may take.
type operation struct {
	name string
	id   string
	// timeout of zero means no limit but the caller's context.
	timeout time.Duration
}

// op is an operation under the default timeout.
func (c *Client) op(name, id string) operation {
	return operation{name: name, id: id, timeout: c.timeout}
}

// call makes one unary RPC under o's deadline and turns its error into an
// *OpError.
func call[Req, Resp any](
	ctx context.Context, c *Client, o operation,
	rpc func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (Resp, error) {
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.timeout)
		defer cancel()
	}
	var trailer metadata.MD
	resp, err := rpc(ctx, req, grpc.Trailer(&trailer))
	if err != nil {
		var none Resp
		return none, c.callError(o, err, trailer)
	}
	return resp, nil
}

// callError is the *OpError for err. Only a runtime that answered sent a trailer:
// that tells a runtime that refuses with Unavailable (a registry is away, say)
// from one that is down.
func (c *Client) callError(o operation, err error, trailer metadata.MD) error {
	if c.closed.Load() {
		return newOpError(o, ErrClosed)
	}
	from := peerTransport
	if len(trailer) > 0 {
		from = peerRuntime
	}
	err = classify(err, from)
	if from == peerTransport && errors.Is(err, ErrRuntimeDown) {
		c.missing.forget()
	}
	return newOpError(o, err)
}
