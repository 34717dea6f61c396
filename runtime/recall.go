package runtime

import (
	"context"
	"fmt"
	"hash/maphash"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// shown are the sandboxes and containers of a Snapshot by the fingerprints of their
// encodings. Most of them are in the next one too, where they need not be decoded again:
// that is what watching a runtime costs most. It is not changed once it is complete.
type shown struct {
	seed       maphash.Seed
	sandboxes  map[uint64]*runtimeapi.PodSandbox
	containers map[uint64]*runtimeapi.Container
}

func newShown(seed maphash.Seed, sandboxes, containers int) *shown {
	return &shown{
		seed:       seed,
		sandboxes:  make(map[uint64]*runtimeapi.PodSandbox, sandboxes),
		containers: make(map[uint64]*runtimeapi.Container, containers),
	}
}

// recall is the codec of one Snapshot: it decodes lists, taking from before what did not
// change, and notes in now what it saw. All other messages it leaves to gRPC's codec.
// It is used by one call at a time.
type recall struct {
	encoding.CodecV2
	before, now *shown
}

// newRecall returns the codec of the Snapshot after before, which may be nil.
func newRecall(before *shown) *recall {
	if before == nil {
		before = newShown(maphash.MakeSeed(), 0, 0)
	}
	now := newShown(before.seed, len(before.sandboxes), len(before.containers))
	return &recall{CodecV2: encoding.GetCodecV2(grpcproto.Name), before: before, now: now}
}

// Unmarshal is that of encoding.CodecV2.
func (r *recall) Unmarshal(data mem.BufferSlice, v any) error {
	var err error
	switch m := v.(type) {
	case *runtimeapi.ListPodSandboxResponse:
		m.Items, err = remember(r.now.seed, data, r.before.sandboxes, r.now.sandboxes)
	case *runtimeapi.StreamPodSandboxesResponse:
		m.PodSandboxes, err = remember(r.now.seed, data, r.before.sandboxes, r.now.sandboxes)
	case *runtimeapi.ListContainersResponse:
		m.Containers, err = remember(r.now.seed, data, r.before.containers, r.now.containers)
	case *runtimeapi.StreamContainersResponse:
		m.Containers, err = remember(r.now.seed, data, r.before.containers, r.now.containers)
	default:
		return r.CodecV2.Unmarshal(data, v)
	}
	return err
}

// listField is the number of the field that has the items, in all lists of CRI v1.
const listField = 1

// remember decodes a list. Items of before are used again, and all are noted in now.
func remember[T any, P interface {
	*T
	proto.Message
}](seed maphash.Seed, data mem.BufferSlice, before, now map[uint64]P) ([]P, error) {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	items := make([]P, 0, max(0, len(before)-len(now)))
	err := fields(buf.ReadOnlyData(), func(num protowire.Number, typ protowire.Type, value []byte) error {
		if num != listField || typ != protowire.BytesType {
			return nil
		}
		encoded, n := protowire.ConsumeBytes(value)
		if n < 0 {
			return protowire.ParseError(n)
		}
		key, err := fingerprint(seed, encoded)
		if err != nil {
			return err
		}
		item, found := before[key]
		if !found {
			item = new(T)
			if err := proto.Unmarshal(encoded, item); err != nil {
				return err
			}
		}
		now[key], items = item, append(items, item)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode a list: %w", err)
	}
	return items, nil
}

// fingerprint is a number that two messages share, but for a chance of 1 in 2⁶⁴, only if
// they have the same fields. It does not depend on the order of the fields: entries of
// maps, such as labels, come in another one each time.
func fingerprint(seed maphash.Seed, message []byte) (uint64, error) {
	var sum uint64
	err := fields(message, func(num protowire.Number, _ protowire.Type, value []byte) error {
		sum += maphash.Bytes(seed, value) * (2*uint64(num) + 1) // odd: a bijection for each field
		return nil
	})
	return sum, err
}

// fields calls each with the fields of a message in their order, until it fails.
func fields(message []byte, each func(num protowire.Number, typ protowire.Type, value []byte) error) error {
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if n = protowire.ConsumeFieldValue(num, typ, message); n < 0 {
			return protowire.ParseError(n)
		}
		if err := each(num, typ, message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

// with is rpc with more options.
func with[Req, Resp any](
	rpc func(context.Context, Req, ...grpc.CallOption) (Resp, error), more ...grpc.CallOption,
) func(context.Context, Req, ...grpc.CallOption) (Resp, error) {
	return func(ctx context.Context, req Req, opts ...grpc.CallOption) (Resp, error) {
		return rpc(ctx, req, append(opts, more...)...)
	}
}
