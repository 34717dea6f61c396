package images

import (
	"context"
	"fmt"
	"slices"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images/pullrecord"
)

// Lister is what Recover needs of a container runtime; runtime.Client is one.
type Lister interface {
	ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error)
}

// Recover brings records of pulls up to date with a runtime, after a restart before the
// first pull, and then once an hour or so for pulls that were cut off: see
// [pullrecord.Store.Recover].
func Recover(ctx context.Context, rt Lister, records *pullrecord.Store) error {
	list, err := rt.ListImages(ctx, nil)
	if err != nil {
		return fmt.Errorf("recover records of image pulls: list images: %w", err)
	}
	found := make([]pullrecord.Image, 0, len(list))
	for _, i := range list {
		found = append(found, pullrecord.Image{ID: i.GetId(), Names: slices.Concat(i.GetRepoTags(), i.GetRepoDigests())})
	}
	return records.Recover(found)
}
