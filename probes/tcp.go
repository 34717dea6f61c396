package probes

import "context"

// TCP probes a container by connecting to it. Nothing is sent or read.
type TCP struct {
	// Addr is host:port; required.
	Addr string
}

// Probe makes one attempt. A refused, unreachable or silent port is a Failure.
func (t TCP) Probe(ctx context.Context) (Result, error) { return boundTCP{TCP: t}.Probe(ctx) }

// boundTCP is a TCP that may connect to some addresses only.
type boundTCP struct {
	TCP
	reach Reach
}

// Probe makes one attempt.
func (t boundTCP) Probe(ctx context.Context) (Result, error) {
	conn, err := t.reach.dial(ctx, t.Addr)
	if err != nil {
		if noAnswer(ctx, err) {
			return Result{}, err
		}
		return Failed("%v", err), nil
	}
	// Connecting was the question; how closing goes is no part of the answer.
	_ = conn.Close()
	return Result{Outcome: Success}, nil
}
