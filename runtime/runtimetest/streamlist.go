package runtimetest

import (
	"slices"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// streamChunk is how many items a message of a streamed list has at most; CRI-O's is the
// same.
const streamChunk = 3000

// sendList sends items in several messages.
func sendList[Msg, T any](stream grpc.ServerStreamingServer[Msg], items []T, message func([]T) *Msg) error {
	for chunk := range slices.Chunk(items, streamChunk) {
		if err := stream.Send(message(chunk)); err != nil {
			return err
		}
	}
	return nil
}

// StreamPodSandboxes implements CRI.
func (s *runtimeService) StreamPodSandboxes(req *runtimeapi.StreamPodSandboxesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxesResponse]) error {
	return sendList(stream, s.world.listSandboxes(req.GetFilter()), func(items []*runtimeapi.PodSandbox) *runtimeapi.StreamPodSandboxesResponse {
		return &runtimeapi.StreamPodSandboxesResponse{PodSandboxes: items}
	})
}

// StreamContainers implements CRI.
func (s *runtimeService) StreamContainers(req *runtimeapi.StreamContainersRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainersResponse]) error {
	return sendList(stream, s.world.listContainers(req.GetFilter()), func(items []*runtimeapi.Container) *runtimeapi.StreamContainersResponse {
		return &runtimeapi.StreamContainersResponse{Containers: items}
	})
}

// StreamContainerStats implements CRI.
func (s *runtimeService) StreamContainerStats(req *runtimeapi.StreamContainerStatsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamContainerStatsResponse]) error {
	resp, err := s.ListContainerStats(stream.Context(), &runtimeapi.ListContainerStatsRequest{Filter: req.GetFilter()})
	if err != nil {
		return err
	}
	return sendList(stream, resp.GetStats(), func(items []*runtimeapi.ContainerStats) *runtimeapi.StreamContainerStatsResponse {
		return &runtimeapi.StreamContainerStatsResponse{ContainerStats: items}
	})
}

// StreamPodSandboxStats implements CRI.
func (s *runtimeService) StreamPodSandboxStats(req *runtimeapi.StreamPodSandboxStatsRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamPodSandboxStatsResponse]) error {
	resp, err := s.ListPodSandboxStats(stream.Context(), &runtimeapi.ListPodSandboxStatsRequest{Filter: req.GetFilter()})
	if err != nil {
		return err
	}
	return sendList(stream, resp.GetStats(), func(items []*runtimeapi.PodSandboxStats) *runtimeapi.StreamPodSandboxStatsResponse {
		return &runtimeapi.StreamPodSandboxStatsResponse{PodSandboxStats: items}
	})
}

// StreamImages implements CRI.
func (s *imageService) StreamImages(req *runtimeapi.StreamImagesRequest, stream grpc.ServerStreamingServer[runtimeapi.StreamImagesResponse]) error {
	resp, err := s.ListImages(stream.Context(), &runtimeapi.ListImagesRequest{Filter: req.GetFilter()})
	if err != nil {
		return err
	}
	return sendList(stream, resp.GetImages(), func(items []*runtimeapi.Image) *runtimeapi.StreamImagesResponse {
		return &runtimeapi.StreamImagesResponse{Images: items}
	})
}
