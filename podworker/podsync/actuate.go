package podsync

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// resize gives running containers, and the pod as a whole, the resources that were agreed
// on. The runtime is told before anything changes, since it may refuse. The cgroup of the
// pod is at no time smaller than what is in it: it grows before and shrinks after them.
func (s *Syncer) resize(ctx context.Context, pod *corev1.Pod, r *record, a *Actions) []error {
	if len(a.Resize) == 0 && a.ResizePod == nil {
		if err := s.regrow(ctx, pod, r, a); err != nil {
			return []error{err}
		}
		return nil
	}
	var errs []error
	if err := s.growPod(ctx, pod, a); err != nil {
		errs = append(errs, err)
	}
	for i := range a.Resize {
		if len(errs) > 0 {
			break
		}
		if err := s.resizeOne(ctx, pod, &a.Resize[i]); err != nil {
			errs = append(errs, fmt.Errorf("resize container %s of pod %s/%s: %w", a.Resize[i].Name, pod.Namespace, pod.Name, err))
			continue
		}
		delete(r.given.Actuated, a.Resize[i].ID)
		r.given.changing--
	}
	if len(errs) == 0 {
		errs = append(errs, s.ensureCgroup(ctx, pod))
	}
	return s.resized(pod, r.given, joined(errs))
}

// growPod tells the runtime what the pod is to have and makes room for it. If that fails
// the runtime is told that nothing has changed.
func (s *Syncer) growPod(ctx context.Context, pod *corev1.Pod, a *Actions) error {
	if err := s.resizeSandbox(ctx, pod, a.SandboxID); err != nil {
		return err
	}
	err := s.ensureCgroup(ctx, widest(pod, a))
	if err != nil {
		err = errors.Join(err, s.resizeSandbox(ctx, asBefore(pod, a), a.SandboxID))
	}
	return err
}

// regrow sets the cgroup of a pod whose containers get what was agreed on by a restart:
// those that had something else were stopped, and their next runs did not start yet, unless
// this is another attempt.
func (s *Syncer) regrow(ctx context.Context, pod *corev1.Pod, r *record, a *Actions) error {
	g := r.given
	if g == nil || !g.grows {
		return nil
	}
	err := s.resizeSandbox(ctx, pod, a.SandboxID)
	if err == nil {
		err = s.ensureCgroup(ctx, pod)
	}
	if err != nil {
		s.tellFailed(pod, g, err)
		return err
	}
	g.grows = false
	if g.failure != nil && g.changing == 0 {
		s.tellCompleted(pod, g)
	}
	return nil
}

// tellFailed records that a resize is not carried out yet, and tells it.
func (s *Syncer) tellFailed(pod *corev1.Pod, g *given, err error) {
	g.failed(err)
	s.warning(pod, "", "ResizeError", "Pod resize error: "+err.Error())
}

// resized takes down how a change has ended.
func (s *Syncer) resized(pod *corev1.Pod, g *given, err error) []error {
	if err != nil {
		s.tellFailed(pod, g, err)
		return []error{err}
	}
	if g.Had != nil {
		g.Had = nil
		g.changing--
	}
	if err := s.storeGiven(pod, g); err != nil {
		return []error{err}
	}
	g.failure, g.grows = nil, false
	if g.changing == 0 {
		s.tellCompleted(pod, g)
	}
	return nil
}

// statistics is the ability of a runtime to say how much memory a container uses.
type statistics interface {
	ContainerStats(ctx context.Context, containerID string) (*runtimeapi.ContainerStats, error)
}

func (s *Syncer) resizeOne(ctx context.Context, pod *corev1.Pod, change *Resize) error {
	if err := s.checkMemory(ctx, change); err != nil {
		return err
	}
	linux := podspec.Resources(pod, container(pod, change.Name), &s.cfg.Node)
	if extras := s.cfg.Parts.Extras; extras != nil && extras.NoCPUQuota(pod.UID, change.Name) {
		linux.CpuQuota, linux.CpuPeriod = 0, 0 // it was created without, and keeps none
	}
	return s.runtime.UpdateContainerResources(ctx, change.ID, &runtimeapi.ContainerResources{Linux: linux})
}

// checkMemory refuses a memory limit below what the container uses: the kernel would
// kill it. A runtime that does not tell is not asked.
func (s *Syncer) checkMemory(ctx context.Context, change *Resize) error {
	rt, ok := s.runtime.(statistics)
	limit, limited := change.To.Limits[corev1.ResourceMemory]
	if !ok || !limited || sameQuantity(corev1.ResourceMemory, change.From.Limits, change.To.Limits) {
		return nil
	}
	stats, err := rt.ContainerStats(ctx, change.ID)
	if err != nil {
		return fmt.Errorf("get its memory usage: %w", err)
	}
	if used := stats.GetMemory().GetUsageBytes().GetValue(); used > uint64(max(limit.Value(), 0)) { //nolint:gosec // not negative
		// The words are those of the kubelet, for who looks for them.
		return fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", change.Name, limit.Value(), used)
	}
	return nil
}

// resizer is the ability of a runtime to take note of what a whole pod has.
type resizer interface {
	UpdatePodSandboxResources(ctx context.Context, req *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error)
}

// resizeSandbox tells the runtime what the pod as a whole has. Many do not know the call,
// which is no error; others refuse, as one may that runs the pod in a virtual machine. A
// sandbox that is still to be made is told when it is.
func (s *Syncer) resizeSandbox(ctx context.Context, pod *corev1.Pod, id string) error {
	rt, ok := s.runtime.(resizer)
	if !ok || id == "" {
		return nil
	}
	overhead, resources := podspec.SandboxResources(pod, &s.cfg.Node)
	_, err := rt.UpdatePodSandboxResources(ctx, &runtimeapi.UpdatePodSandboxResourcesRequest{PodSandboxId: id, Overhead: overhead, Resources: resources})
	if err == nil || isUnimplemented(err) {
		return nil
	}
	return fmt.Errorf("tell sandbox %s of pod %s/%s of a resize: %w", id, pod.Namespace, pod.Name, err)
}

// ensureCgroup makes or sets the cgroup of the pod, if that is the agent's work.
func (s *Syncer) ensureCgroup(ctx context.Context, pod *corev1.Pod) error {
	if s.cfg.Parts.PodCgroups == nil {
		return nil
	}
	if err := s.cfg.Parts.PodCgroups.EnsurePod(ctx, pod); err != nil {
		s.warning(pod, "", "FailedCreatePodContainer", fmt.Sprintf("unable to ensure pod container exists: %v", err))
		return fmt.Errorf("set cgroup of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// widest returns the pod as if it, and each of its containers, had the larger of what it
// has and what it gets.
func widest(pod *corev1.Pod, a *Actions) *corev1.Pod {
	most := map[string]corev1.ResourceRequirements{}
	for i := range a.Resize {
		most[a.Resize[i].Name] = wider(&a.Resize[i].From, &a.Resize[i].To)
	}
	out := withResources(pod, most)
	if a.ResizePod != nil {
		whole := wider(&a.ResizePod.From, &a.ResizePod.To)
		out.Spec.Resources = &whole
	}
	return out
}

// asBefore returns the pod as if it, and each of its containers, had what it has still.
func asBefore(pod *corev1.Pod, a *Actions) *corev1.Pod {
	has := map[string]corev1.ResourceRequirements{}
	for i := range a.Resize {
		has[a.Resize[i].Name] = a.Resize[i].From
	}
	out := withResources(pod, has)
	if a.ResizePod != nil {
		out.Spec.Resources = a.ResizePod.From.DeepCopy()
	}
	return out
}

// wider returns the larger requests and the larger limits of two.
func wider(a, b *corev1.ResourceRequirements) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: larger(a.Requests, b.Requests), Limits: largerLimit(a.Limits, b.Limits)}
}

func larger(a, b corev1.ResourceList) corev1.ResourceList {
	out := a.DeepCopy()
	for name, q := range b {
		if have, ok := out[name]; !ok || q.Cmp(have) > 0 {
			if out == nil {
				out = corev1.ResourceList{}
			}
			out[name] = q
		}
	}
	return out
}

// largerLimit is larger for limits, of which the one that is missing is the largest.
func largerLimit(a, b corev1.ResourceList) corev1.ResourceList {
	out := larger(a, b)
	for name := range out {
		_, inA := a[name]
		_, inB := b[name]
		if !inA || !inB {
			delete(out, name)
		}
	}
	return out
}
