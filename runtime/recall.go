package runtime

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// shown is what a Snapshot was made of. Most of it is in the next one too, where it need
// not be decoded again: that is what watching a runtime costs most. It is not changed once
// it is complete.
type shown struct {
	seed       maphash.Seed
	sandboxes  known[*runtimeapi.PodSandbox]
	containers known[*runtimeapi.Container]
	snapshot   *Snapshot
}

// known are the items of a list by the fingerprints of their encodings.
type known[P any] struct {
	items map[uint64]P
	sum   uint64 // of the fingerprints
}

// listing is a list that comes in, in one message or several.
type listing[P any] struct {
	before known[P]
	prints []uint64
	items  []P
	sum    uint64
}

func newListing[P any](before known[P]) listing[P] {
	size := len(before.items)
	return listing[P]{before: before, prints: make([]uint64, 0, size), items: make([]P, 0, size)}
}

// add notes an item and its fingerprint.
func (l *listing[P]) add(print uint64, item P) {
	l.prints, l.items = append(l.prints, print), append(l.items, item)
	l.sum += print
}

// same reports whether the list has the items of the one before, in whatever order: two
// lists of that many items have the same sum, but for a chance of 1 in 2⁶⁴, only then.
func (l *listing[P]) same() bool {
	return len(l.items) == len(l.before.items) && l.sum == l.before.sum
}

// known returns the list for the next one to compare with.
func (l *listing[P]) known() known[P] {
	k := known[P]{items: make(map[uint64]P, len(l.items)), sum: l.sum}
	for i, print := range l.prints {
		k.items[print] = l.items[i]
	}
	return k
}

// recall is the codec of one Snapshot: it decodes lists, taking from the one before what
// did not change. All other messages it leaves to gRPC's codec. It is used by one call at
// a time.
type recall struct {
	encoding.CodecV2
	seed       maphash.Seed
	last       *Snapshot
	sandboxes  listing[*runtimeapi.PodSandbox]
	containers listing[*runtimeapi.Container]
}

// newRecall returns the codec of the Snapshot after before, which may be nil.
func newRecall(before *shown) *recall {
	if before == nil {
		before = &shown{seed: maphash.MakeSeed()}
	}
	return &recall{
		CodecV2:    encoding.GetCodecV2(grpcproto.Name),
		seed:       before.seed,
		last:       before.snapshot,
		sandboxes:  newListing(before.sandboxes),
		containers: newListing(before.containers),
	}
}

// unchanged returns the Snapshot before if the lists are those that it was made of, else
// nil.
func (r *recall) unchanged() *Snapshot {
	if r.sandboxes.same() && r.containers.same() {
		return r.last
	}
	return nil
}

// shown returns what the Snapshot after s has to know.
func (r *recall) shown(s *Snapshot) *shown {
	return &shown{seed: r.seed, sandboxes: r.sandboxes.known(), containers: r.containers.known(), snapshot: s}
}

// Unmarshal is that of encoding.CodecV2.
func (r *recall) Unmarshal(data mem.BufferSlice, v any) error {
	var err error
	switch m := v.(type) {
	case *runtimeapi.ListPodSandboxResponse:
		m.Items, err = remember(r.seed, data, &r.sandboxes)
	case *runtimeapi.StreamPodSandboxesResponse:
		m.PodSandboxes, err = remember(r.seed, data, &r.sandboxes)
	case *runtimeapi.ListContainersResponse:
		m.Containers, err = remember(r.seed, data, &r.containers)
	case *runtimeapi.StreamContainersResponse:
		m.Containers, err = remember(r.seed, data, &r.containers)
	default:
		return r.CodecV2.Unmarshal(data, v)
	}
	return err
}

// listField is the number of the field that has the items, in all lists of CRI v1.
const listField = 1

// remember decodes a message of a list, adds its items to l and returns them. Those that
// were in the list before are used again.
func remember[T any, P interface {
	*T
	proto.Message
}](seed maphash.Seed, data mem.BufferSlice, l *listing[P]) ([]P, error) {
	buf := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buf.Free()
	first := len(l.items)
	err := fields(buf.ReadOnlyData(), func(num protowire.Number, typ protowire.Type, value []byte) error {
		if num != listField || typ != protowire.BytesType {
			return nil
		}
		encoded, n := protowire.ConsumeBytes(value)
		if n < 0 {
			return protowire.ParseError(n)
		}
		print, err := fingerprint(seed, encoded)
		if err != nil {
			return err
		}
		item, found := l.before.items[print]
		if !found {
			item = new(T)
			if err := proto.Unmarshal(encoded, item); err != nil {
				return err
			}
		}
		l.add(print, item)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("decode a list: %w", err)
	}
	return slices.Clip(l.items[first:]), nil
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
