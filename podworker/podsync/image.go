package podsync

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// image is an image that is on the node.
type image struct {
	ref  string
	user podspec.User
}

// pull is the back-off of an image that could not be pulled.
type pull struct {
	step   time.Duration
	failed time.Time
	err    error
}

// left returns how much of the back-off is left at a time.
func (p pull) left(now time.Time) time.Duration {
	return p.failed.Add(p.step).Sub(now)
}

// ensureImage has the image of a container on the node, by its pull policy.
func (b *batch) ensureImage(ctx context.Context, c *corev1.Container) (image, *startError) {
	name, err := withTag(c.Image)
	if err != nil {
		b.warning(c, "InspectFailed", err.Error())
		return image{}, &startError{reason: reasonBadImage, err: err}
	}
	spec := &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: c.Image}
	policy := pullPolicy(c)
	if policy != corev1.PullAlways {
		found, failure := b.inspect(ctx, c, spec)
		if failure != nil {
			return image{}, failure
		}
		if found != nil {
			b.normal(c, "Pulled", fmt.Sprintf("Container image %q already present on machine", c.Image))
			return fromStatus(found), nil
		}
	}
	if policy == corev1.PullNever {
		err := fmt.Errorf("Container image %q is not present with pull policy of Never", c.Image) //nolint:staticcheck // the text of the status
		b.warning(c, reasonNeverPull, err.Error())
		return image{}, &startError{reason: reasonNeverPull, err: err}
	}
	if failure := b.pullBackoff(c); failure != nil {
		return image{}, failure
	}
	return b.pull(ctx, c, spec)
}

// image has the image of a container on the node.
func (b *batch) image(ctx context.Context, c *corev1.Container) (image, *startError) {
	images := b.syncer.cfg.Parts.Images
	if images == nil {
		return b.ensureImage(ctx, c)
	}
	found, err := images.ForContainer(ctx, b.pod, c, b.config)
	if err != nil {
		return image{}, imageError(err)
	}
	return fromStatus(found), nil
}

// volumeImages is the ability of [Images] to have the images of volumes on the node, too.
type volumeImages interface {
	ForVolume(ctx context.Context, pod *corev1.Pod, v *corev1.ImageVolumeSource, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error)
}

// volumes has the images of the volumes that a container mounts on the node, and returns
// them by the name of the volume.
func (b *batch) volumes(ctx context.Context, c *corev1.Container) (map[string]string, *startError) {
	images, ok := b.syncer.cfg.Parts.Images.(volumeImages)
	if !ok {
		return nil, nil // pods with such volumes were refused
	}
	var out map[string]string
	for i := range b.pod.Spec.Volumes {
		v := &b.pod.Spec.Volumes[i]
		mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
		if v.Image == nil || !mounted {
			continue
		}
		found, err := images.ForVolume(ctx, b.pod, v.Image, b.config)
		if err != nil {
			return nil, imageError(err)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[v.Name] = found.GetId()
	}
	return out, nil
}

// imageError takes from an error what it says of itself.
func imageError(err error) *startError {
	failure := &startError{reason: reasonPull, err: err}
	var reason interface{ WaitingReason() string }
	if errors.As(err, &reason) {
		failure.reason = reason.WaitingReason()
	}
	var after interface{ RetryAfter() time.Duration }
	if errors.As(err, &after) {
		failure.after = after.RetryAfter()
	}
	return failure
}

// inspect returns the image if the node has it, nil if not.
func (b *batch) inspect(ctx context.Context, c *corev1.Container, spec *runtimeapi.ImageSpec) (*runtimeapi.Image, *startError) {
	resp, err := b.syncer.runtime.ImageStatus(ctx, spec, false)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, b.inspectFailed(c, fmt.Errorf("inspect image %q: %w", c.Image, err))
	}
	if resp.GetImage().GetId() == "" {
		return nil, nil
	}
	return resp.GetImage(), nil
}

func (b *batch) inspectFailed(c *corev1.Container, err error) *startError {
	b.warning(c, "InspectFailed", err.Error())
	return &startError{reason: reasonInspect, err: err}
}

// pullBackoff fails while the last failed pull of the image is too recent.
func (b *batch) pullBackoff(c *corev1.Container) *startError {
	b.crew.mu.Lock()
	last, ok := b.record.pulls[c.Image]
	b.crew.mu.Unlock()
	if !ok {
		return nil
	}
	left := last.left(time.Now())
	if left <= 0 {
		return nil
	}
	text := fmt.Sprintf("Back-off pulling image %q", c.Image)
	b.normal(c, "BackOff", text)
	return &startError{reason: reasonPullBackoff, err: fmt.Errorf("%s: %w", text, last.err), after: left}
}

func (b *batch) pull(ctx context.Context, c *corev1.Container, spec *runtimeapi.ImageSpec) (image, *startError) {
	b.normal(c, "Pulling", fmt.Sprintf("Pulling image %q", c.Image))
	began := time.Now()
	ref, err := b.syncer.runtime.PullImage(ctx, spec, nil, b.config)
	switch {
	case ctx.Err() != nil:
		return image{}, &startError{reason: reasonPull, err: ctx.Err()}
	case err != nil:
		return image{}, b.pullFailed(c, err)
	}
	b.crew.mu.Lock()
	delete(b.record.pulls, c.Image)
	b.crew.mu.Unlock()
	took := time.Since(began).Truncate(time.Millisecond)
	found, failure := b.inspect(ctx, c, &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: c.Image})
	if failure == nil && found == nil {
		// Without the image nobody knows the user it asks for.
		failure = b.inspectFailed(c, fmt.Errorf("image %q was pulled as %s, which the runtime does not know", c.Image, ref))
	}
	if failure != nil {
		return image{}, failure
	}
	b.normal(c, "Pulled", fmt.Sprintf("Successfully pulled image %q in %s (%s including waiting). Image size: %d bytes.",
		c.Image, took, took, found.GetSize()))
	got := fromStatus(found)
	got.ref = ref
	return got, nil
}

func (b *batch) pullFailed(c *corev1.Container, err error) *startError {
	b.crew.mu.Lock()
	last := b.record.pulls[c.Image]
	step := last.step
	if time.Since(last.failed) > 2*maxBackoff {
		step = 0
	}
	step = backoff{limit: maxBackoff}.after(step)
	b.record.pulls[c.Image] = pull{step: step, failed: time.Now(), err: err}
	b.crew.mu.Unlock()
	b.warning(c, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err))
	b.warning(c, "Failed", "Error: "+reasonPull)
	return &startError{reason: reasonPull, err: err, after: step}
}

func fromStatus(i *runtimeapi.Image) image {
	out := image{ref: i.GetId(), user: podspec.User{Name: i.GetUsername()}}
	if u := i.GetUid(); u != nil {
		uid := u.GetValue()
		out.user.UID = &uid
	}
	return out
}

// pullPolicy is the policy of a container; the API's default depends on the tag
// (https://kubernetes.io/docs/concepts/containers/images/#imagepullpolicy-defaulting).
func pullPolicy(c *corev1.Container) corev1.PullPolicy {
	if c.ImagePullPolicy != "" {
		return c.ImagePullPolicy
	}
	if name, err := withTag(c.Image); err == nil && strings.HasSuffix(name, ":latest") {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// withTag completes the name of an image that has neither tag nor digest.
func withTag(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, " \t\r\n") || strings.ContainsAny(name[len(name)-1:], ":/@") {
		return "", fmt.Errorf("parse image name %q: %w", name, errReference)
	}
	last := name[strings.LastIndexByte(name, '/')+1:]
	if strings.ContainsAny(last, ":@") {
		return name, nil
	}
	return name + ":latest", nil
}

var errReference = errors.New("invalid reference format")
