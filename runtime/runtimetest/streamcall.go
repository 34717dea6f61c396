package runtimetest

import (
	"path"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *Server) interceptStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	rpc := path.Base(info.FullMethod)
	if s.cfg.lacks(rpc) {
		return unimplemented(rpc)
	}
	c := &streamCall{ServerStream: stream, server: s, call: &Call{RPC: rpc}}
	err := handler(srv, c)
	if err == nil && c.fault != nil && c.fault.Late {
		err = c.fault.spoil(stream.Context())
	}
	if !c.call.Began.IsZero() {
		s.calls.end(c.call, err)
	}
	return err
}

// streamCall is a call whose answer is a stream, with its fault. The call begins with
// its request, which the handler receives first.
type streamCall struct {
	grpc.ServerStream
	server *Server
	call   *Call
	fault  *Fault
}

// RecvMsg implements grpc.ServerStream.
func (c *streamCall) RecvMsg(m any) error {
	if err := c.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	req, _ := m.(proto.Message)
	c.call.Request, c.call.Subject = req, c.server.world.subject(req)
	c.server.calls.begin(c.call)
	var err error
	c.fault, err = c.server.faults.takeStream(c.call.RPC, req)
	if err == nil && c.fault != nil && !c.fault.Late {
		err = c.fault.spoil(c.Context())
	}
	return err
}

// SendMsg implements grpc.ServerStream.
func (c *streamCall) SendMsg(m any) error {
	if resp, ok := m.(proto.Message); ok && c.fault != nil && c.fault.Edit != nil {
		resp = proto.Clone(resp) // an event goes to several clients
		c.fault.Edit(resp)
		m = resp
	}
	return c.ServerStream.SendMsg(m)
}

// takeStream returns the fault of a call whose answer is a stream. A streamed list has
// those of the list too, in whose messages they see it.
func (fs *faults) takeStream(rpc string, req proto.Message) (*Fault, error) {
	fault, err := fs.take(rpc, req)
	list, asked, answer := streamedList(rpc)
	if fault != nil || err != nil || list == "" {
		return fault, err
	}
	recast(asked, req)
	fault, err = fs.take(list, asked)
	if fault != nil && fault.Edit != nil {
		edit := fault.Edit
		fault.Edit = func(m proto.Message) {
			recast(answer, m)
			edit(answer)
			recast(m, answer)
		}
	}
	return fault, err
}

// streamedList returns the call that lists what another one streams, with empty
// messages of it; the name is empty if rpc streams no list.
func streamedList(rpc string) (list string, req, resp proto.Message) {
	switch rpc {
	case "StreamPodSandboxes":
		return "ListPodSandbox", &runtimeapi.ListPodSandboxRequest{}, &runtimeapi.ListPodSandboxResponse{}
	case "StreamContainers":
		return "ListContainers", &runtimeapi.ListContainersRequest{}, &runtimeapi.ListContainersResponse{}
	case "StreamContainerStats":
		return "ListContainerStats", &runtimeapi.ListContainerStatsRequest{}, &runtimeapi.ListContainerStatsResponse{}
	case "StreamPodSandboxStats":
		return "ListPodSandboxStats", &runtimeapi.ListPodSandboxStatsRequest{}, &runtimeapi.ListPodSandboxStatsResponse{}
	case "StreamPodSandboxMetrics":
		return "ListPodSandboxMetrics", &runtimeapi.ListPodSandboxMetricsRequest{}, &runtimeapi.ListPodSandboxMetricsResponse{}
	case "StreamImages":
		return "ListImages", &runtimeapi.ListImagesRequest{}, &runtimeapi.ListImagesResponse{}
	}
	return "", nil, nil
}

// recast gives a message the content of its twin: a list and its stream have the same
// filter, and the same items, as their first and only field.
func recast(to, from proto.Message) {
	proto.Reset(to)
	target, source := to.ProtoReflect(), from.ProtoReflect()
	if field := source.Descriptor().Fields().ByNumber(1); field != nil && source.Has(field) {
		target.Set(target.Descriptor().Fields().ByNumber(1), source.Get(field))
	}
}
