package runtimetest

import (
	"context"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// imageService serves the image half of CRI.
type imageService struct {
	runtimeapi.UnimplementedImageServiceServer
	world *world
}

// ListImages implements CRI.
func (s *imageService) ListImages(_ context.Context, req *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	name := req.GetFilter().GetImage().GetImage()
	if name == "" {
		return &runtimeapi.ListImagesResponse{Images: s.world.images.list()}, nil
	}
	resp := &runtimeapi.ListImagesResponse{}
	if i := s.world.images.find(name); i != nil {
		resp.Images = append(resp.Images, clone(i))
	}
	return resp, nil
}

// ImageStatus implements CRI. An image that is not present is a nil image.
func (s *imageService) ImageStatus(_ context.Context, req *runtimeapi.ImageStatusRequest) (*runtimeapi.ImageStatusResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	resp := &runtimeapi.ImageStatusResponse{}
	if i := s.world.images.find(req.GetImage().GetImage()); i != nil {
		resp.Image = clone(i)
	}
	return resp, nil
}

// PullImage implements CRI.
func (s *imageService) PullImage(ctx context.Context, req *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	ref, err := s.world.pullImage(ctx, req.GetImage().GetImage())
	if err != nil {
		return nil, err
	}
	return &runtimeapi.PullImageResponse{ImageRef: ref}, nil
}

// RemoveImage implements CRI.
func (s *imageService) RemoveImage(_ context.Context, req *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.images.remove(req.GetImage().GetImage())
	return &runtimeapi.RemoveImageResponse{}, nil
}

// ImageFsInfo implements CRI.
func (s *imageService) ImageFsInfo(context.Context, *runtimeapi.ImageFsInfoRequest) (*runtimeapi.ImageFsInfoResponse, error) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	var used uint64
	for _, i := range s.world.images.present {
		used += i.GetSize()
	}
	return &runtimeapi.ImageFsInfoResponse{ImageFilesystems: []*runtimeapi.FilesystemUsage{{
		Timestamp:  time.Now().UnixNano(),
		FsId:       &runtimeapi.FilesystemIdentifier{Mountpoint: "/var/lib/runtimetest"},
		UsedBytes:  &runtimeapi.UInt64Value{Value: used},
		InodesUsed: &runtimeapi.UInt64Value{Value: uint64(len(s.world.images.present))},
	}}}, nil
}
