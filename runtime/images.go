package runtime

import (
	"context"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListImages returns the images that match filter; nil means all.
func (c *Client) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	return list(ctx, c, "ListImages",
		collect(c.images.StreamImages, &runtimeapi.StreamImagesRequest{Filter: filter}, (*runtimeapi.StreamImagesResponse).GetImages),
		func() ([]*runtimeapi.Image, error) {
			resp, err := call(ctx, c, c.op("ListImages", filter.GetImage().GetImage()), c.images.ListImages,
				&runtimeapi.ListImagesRequest{Filter: filter})
			return resp.GetImages(), err
		})
}

// ImageStatus returns what the runtime knows about an image. An image that is not
// there is not an error: the answer has a nil Image.
func (c *Client) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	o := c.op("ImageStatus", image.GetImage())
	resp, err := call(ctx, c, o, c.images.ImageStatus,
		&runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	if err := checkImage(resp.GetImage()); err != nil {
		return nil, newOpError(o, err)
	}
	return resp, nil
}

// PullImage fetches an image and returns the reference of what it got. auth and
// sandboxConfig may be nil. There is no limit but ctx: whether a pull makes progress
// is for the runtime to watch.
func (c *Client) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	o := operation{name: "PullImage", id: image.GetImage()}
	resp, err := call(ctx, c, o, c.images.PullImage, &runtimeapi.PullImageRequest{
		Image:         image,
		Auth:          auth,
		SandboxConfig: sandboxConfig,
	})
	if err != nil {
		return "", err
	}
	if err := checkNonEmpty("image_ref", resp.GetImageRef()); err != nil {
		return "", newOpError(o, err)
	}
	return resp.GetImageRef(), nil
}

// RemoveImage removes an image. One that is gone already is not an error.
func (c *Client) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	_, err := call(ctx, c, c.op("RemoveImage", image.GetImage()), c.images.RemoveImage,
		&runtimeapi.RemoveImageRequest{Image: image})
	return err
}

// ImageFsInfo returns the usage of the file systems that hold images and the
// writable layers of containers.
func (c *Client) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	return call(ctx, c, c.op("ImageFsInfo", ""), c.images.ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
}
