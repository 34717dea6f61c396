package podsync

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// volumes are the volumes of a pod that are ready.
type volumes struct {
	// pod is the version of it that they were made ready for, nil if they were not.
	pod  *corev1.Pod
	list map[string]podspec.Volume
}

// groups returns the groups that processes have to be of to use the volumes, each once.
func (v *volumes) groups() []int64 {
	var out []int64
	for _, one := range v.list {
		if one.Group != nil {
			out = append(out, *one.Group)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// setUp makes the volumes of a pod ready, before any of its containers starts. Meanwhile
// the status of the pod is published as ever.
func (s *Syncer) setUp(ctx context.Context, pod *corev1.Pod, r *record) error {
	if s.cfg.Parts.Volumes == nil {
		return nil
	}
	var list map[string]podspec.Volume
	var err error
	s.meanwhile(ctx, pod, r, func() { list, err = s.cfg.Parts.Volumes.SetUp(ctx, pod) }, func() {})
	if err == nil {
		r.volumes = volumes{pod: pod, list: list}
		return nil
	}
	if ctx.Err() == nil {
		s.warning(pod, "", "FailedMount", "Unable to attach or mount volumes: "+err.Error())
	}
	return fmt.Errorf("set up volumes of pod %s/%s: %w", pod.Namespace, pod.Name, err)
}

// keepUp has the volumes of a pod follow it when it has changed, or when this process
// does not know them yet, while no container has to start.
func (s *Syncer) keepUp(ctx context.Context, pod *corev1.Pod, r *record) error {
	if r.volumes.pod == pod {
		return nil
	}
	return s.setUp(ctx, pod, r)
}

// tearDown removes the volumes of a pod. A UID that names no directory is that of a pod
// that was refused and has none.
func (s *Syncer) tearDown(ctx context.Context, uid types.UID) error {
	if s.cfg.Parts.Volumes == nil || !isPathElement(uid) {
		return nil
	}
	return s.cfg.Parts.Volumes.TearDown(ctx, uid)
}
