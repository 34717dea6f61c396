package runtimetest

import (
	"context"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// Call is one call the server got.
type Call struct {
	// RPC is its name in CRI.
	RPC string
	// Subject is what it was about: "namespace/pod", "namespace/pod/container", an
	// image; the bare id where the runtime knows no better, and empty for lists.
	Subject string
	// Request is what was asked; it must not be changed.
	Request proto.Message
	// Began and Ended are zero for a call that goes on.
	Began, Ended time.Time
	// Err is what the caller was told.
	Err error
}

// String returns the RPC and the subject, "StopContainer default/web/app".
func (c Call) String() string { return strings.TrimSpace(c.RPC + " " + c.Subject) }

// changes reports whether the call asks for a change, rather than for information.
func (c Call) changes() bool {
	for _, prefix := range []string{"Run", "Stop", "Remove", "Create", "Start", "Update", "Pull", "Reopen", "Exec", "Checkpoint", "Restore"} {
		if strings.HasPrefix(c.RPC, prefix) {
			return true
		}
	}
	return false
}

// Calls returns the calls so far in the order in which they came, those of the named
// RPCs only if any are named.
func (s *Server) Calls(rpcs ...string) []Call {
	return s.calls.filter(func(c Call) bool { return len(rpcs) == 0 || slices.Contains(rpcs, c.RPC) })
}

// Changes returns the calls so far that asked for a change, as text. Lists, statuses
// and statistics are not among them.
func (s *Server) Changes() []string {
	var text []string
	for _, c := range s.calls.filter(Call.changes) {
		text = append(text, c.String())
	}
	return text
}

// ForgetCalls empties the record.
func (s *Server) ForgetCalls() { s.calls.forget() }

// WantChanges fails the test unless the calls that asked for a change are exactly want,
// in this order: "StartContainer default/web/app".
func (s *Server) WantChanges(tb testing.TB, want ...string) {
	tb.Helper()
	got := s.Changes()
	if slices.Equal(got, want) {
		return
	}
	tb.Errorf("runtime was asked for\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
}

// callLog records calls.
type callLog struct {
	// mu guards calls and what they point to.
	mu    sync.Mutex
	calls []*Call
}

func (l *callLog) begin(c *Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Began = time.Now()
	l.calls = append(l.calls, c)
}

func (l *callLog) end(c *Call, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.Ended, c.Err = time.Now(), err
}

func (l *callLog) filter(keep func(Call) bool) []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Call
	for _, c := range l.calls {
		if keep(*c) {
			found = append(found, *c)
		}
	}
	return found
}

func (l *callLog) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = nil
}

func (s *Server) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	m, _ := req.(proto.Message)
	rpc := path.Base(info.FullMethod)
	if s.cfg.lacks(rpc) {
		return nil, unimplemented(rpc)
	}
	call := &Call{RPC: rpc, Request: m, Subject: s.world.subject(m)}
	s.calls.begin(call)
	fault, err := s.faults.take(call.RPC, m)
	var resp any
	if err == nil {
		resp, err = fault.carryOut(ctx, func() (any, error) { return handler(ctx, req) })
	}
	s.calls.end(call, err)
	return resp, err
}
