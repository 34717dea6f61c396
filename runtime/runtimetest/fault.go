package runtimetest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Fault is something that goes wrong with a call. The fields apply in their order.
type Fault struct {
	// Times is how many calls it spoils; zero means all until ClearFaults.
	Times int
	// Match limits it to some requests; nil means all. It must not call the server.
	Match func(req proto.Message) bool
	// Late lets the runtime do the work first, so that only the answer is spoilt.
	Late bool
	// Delay passes before anything else happens.
	Delay time.Duration
	// Hang gives no answer until the call is cancelled, times out, or the server goes
	// down.
	Hang bool
	// Err is the answer; a gRPC status keeps its code.
	Err error
	// Edit changes the answer: empties it, halves it, blows it up. It gets each message of
	// a stream; one without a message it does not get.
	Edit func(resp proto.Message)
}

// Inject adds a fault to an RPC, named as in CRI: "RunPodSandbox". Of several faults
// that match a call the oldest counts. A fault of "ListContainers" is one of
// "StreamContainers" too, by which clients list where the runtime has it, and gets the
// messages of the former; it is so for every list, and faults of the stream itself come
// first. An unknown name is a mistake of the test, which every call answers from then on.
func (s *Server) Inject(rpc string, f Fault) { s.faults.add(rpc, f) }

// ClearFaults ends all faults. Calls that hang go on hanging.
func (s *Server) ClearFaults() { s.faults.clear() }

// faults are the faults to come.
type faults struct {
	// mu guards the fields below.
	mu sync.Mutex
	// pending are those of each RPC, oldest first.
	pending map[string][]*Fault
	// misuse is a mistake of the test.
	misuse error
}

func (fs *faults) add(rpc string, f Fault) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if !knownRPC(rpc) {
		fs.misuse = status.Errorf(codes.Internal, "runtimetest: Inject: CRI has no call %q", rpc)
		return
	}
	if fs.pending == nil {
		fs.pending = make(map[string][]*Fault)
	}
	fs.pending[rpc] = append(fs.pending[rpc], &f)
}

func (fs *faults) clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.pending, fs.misuse = nil, nil
}

// take returns the fault of a call; nil for none.
func (fs *faults) take(rpc string, req proto.Message) (*Fault, error) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.misuse != nil {
		return nil, fs.misuse
	}
	for i, f := range fs.pending[rpc] {
		if f.Match != nil && !f.Match(req) {
			continue
		}
		spoil := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				fs.pending[rpc] = append(fs.pending[rpc][:i:i], fs.pending[rpc][i+1:]...)
			}
		}
		return &spoil, nil
	}
	return nil, nil
}

// knownRPC reports whether CRI has a call of that name.
func knownRPC(rpc string) bool {
	for _, desc := range []grpc.ServiceDesc{runtimeapi.RuntimeService_ServiceDesc, runtimeapi.ImageService_ServiceDesc} {
		for _, m := range desc.Methods {
			if m.MethodName == rpc {
				return true
			}
		}
		for _, m := range desc.Streams {
			if m.StreamName == rpc {
				return true
			}
		}
	}
	return false
}

// spoil lets the fault happen; it returns nil when the call is to go on.
func (f *Fault) spoil(ctx context.Context) error {
	if err := sleep(ctx, f.Delay); err != nil {
		return err
	}
	if f.Hang {
		<-ctx.Done()
		return status.FromContextError(ctx.Err()).Err()
	}
	if f.Err != nil {
		return status.Convert(f.Err).Err()
	}
	return nil
}

// carryOut makes a call with its fault, if it has one.
func (f *Fault) carryOut(ctx context.Context, work func() (any, error)) (any, error) {
	if f == nil {
		return work()
	}
	if !f.Late {
		if err := f.spoil(ctx); err != nil {
			return nil, err
		}
	}
	resp, err := work()
	if err != nil {
		return nil, err
	}
	if f.Late {
		if err := f.spoil(ctx); err != nil {
			return nil, err
		}
	}
	if f.Edit != nil {
		m, ok := resp.(proto.Message)
		if !ok {
			return nil, fmt.Errorf("runtimetest: %T is no message", resp)
		}
		f.Edit(m)
	}
	return resp, nil
}
