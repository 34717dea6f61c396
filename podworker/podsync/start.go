package podsync

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// batch starts containers of one pod in one sandbox.
type batch struct {
	syncer    *Syncer
	pod       *corev1.Pod
	record    *record
	sandboxID string
	ips       []string
	config    *runtimeapi.PodSandboxConfig
}

// startAll starts containers one after the other. A failure does not keep the next
// from starting.
func (b *batch) startAll(ctx context.Context, seen *podstatus.Observed, starts []Start) []error {
	at := slices.IndexFunc(seen.Sandboxes, func(sb podstatus.Sandbox) bool { return sb.ID == b.sandboxID })
	if at < 0 {
		return []error{fmt.Errorf("start containers of pod %s/%s: the runtime does not list sandbox %s yet", b.pod.Namespace, b.pod.Name, b.sandboxID)}
	}
	b.ips = seen.Sandboxes[at].IPs
	spec, err := podspec.Sandbox(b.pod, &b.syncer.cfg.Node, podspec.SandboxRun{Attempt: seen.Sandboxes[at].Attempt})
	if err != nil {
		return []error{fmt.Errorf("configure sandbox of pod %s/%s: %w", b.pod.Namespace, b.pod.Name, err)}
	}
	b.config = spec.Config
	var errs []error
	for i := range starts {
		if ctx.Err() != nil {
			return append(errs, ctx.Err())
		}
		if err := b.start(ctx, &starts[i]); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// start starts one container and records why it could not.
func (b *batch) start(ctx context.Context, st *Start) error {
	c := container(b.pod, st.Name)
	var failure *startError
	if st.ID != "" {
		failure = b.run(ctx, c, st.ID, st.Attempt)
	} else {
		failure = b.create(ctx, c, st)
	}
	if failure == nil {
		delete(b.record.waiting, c.Name)
		return nil
	}
	failure.container = c.Name
	if ctx.Err() != nil {
		return fmt.Errorf("pod %s/%s: %w", b.pod.Namespace, b.pod.Name, failure)
	}
	b.record.waiting[c.Name] = podstatus.Waiting{Reason: failure.reason, Message: failure.err.Error()}
	return fmt.Errorf("pod %s/%s: %w", b.pod.Namespace, b.pod.Name, failure)
}

// create makes a new container and starts it.
func (b *batch) create(ctx context.Context, c *corev1.Container, st *Start) *startError {
	s := b.syncer
	image, failure := b.ensureImage(ctx, c)
	if failure != nil {
		return failure
	}
	attempt := st.Attempt
	if st.First {
		n, err := nextLogNumber(filepath.Join(s.cfg.Node.LogDir(b.pod), c.Name))
		if err != nil {
			return b.fail(ctx, c, reasonConfig, err)
		}
		attempt = n
	}
	spec, err := podspec.Container(b.pod, c, &s.cfg.Node, podspec.Run{
		Attempt: attempt, Backoff: st.Backoff, ImageRef: image.ref, ImageUser: image.user,
		PodIPs: b.podIPs(), MessageFile: randomName(),
	})
	if err == nil {
		err = fulfil(spec.Paths)
	}
	if err != nil {
		if failed, ok := errors.AsType[*volumeError](err); ok {
			b.syncer.warning(b.pod, "", "FailedMount", failed.Error())
		}
		return b.fail(ctx, c, reasonConfig, err)
	}
	id, err := b.createContainer(ctx, spec.Config)
	if err != nil {
		return b.fail(ctx, c, reasonCreate, err)
	}
	b.normal(c, "Created", "Container created")
	return b.run(ctx, c, id, attempt)
}

func (b *batch) createContainer(ctx context.Context, config *runtimeapi.ContainerConfig) (string, error) {
	call, cancel := finishing(ctx)
	defer cancel()
	id, err := b.syncer.runtime.CreateContainer(call, b.sandboxID, config, b.config)
	if isReserved(err) {
		id, err = b.reservedContainer(call, config, err)
	}
	return id, err
}

// reservedContainer deals with a container name that is taken: one made from the
// same spec that was not started yet is used, another one that does not run makes
// way for the next attempt.
func (b *batch) reservedContainer(ctx context.Context, config *runtimeapi.ContainerConfig, cause error) (string, error) {
	rt := b.syncer.runtime
	list, err := b.syncer.listContainers(ctx, config.GetLabels())
	if err != nil {
		return "", fmt.Errorf("%w; then list containers: %w", cause, err)
	}
	for _, c := range list {
		if c.GetMetadata().GetAttempt() != config.GetMetadata().GetAttempt() || c.GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			continue
		}
		same := c.GetAnnotations()[podspec.AnnotationHash] == config.GetAnnotations()[podspec.AnnotationHash]
		if same && c.GetState() == runtimeapi.ContainerState_CONTAINER_CREATED && c.GetPodSandboxId() == b.sandboxID {
			return c.GetId(), nil
		}
		if err := ignoreNotFound(rt.RemoveContainer(ctx, c.GetId())); err != nil {
			return "", fmt.Errorf("%w; then remove container %s: %w", cause, c.GetId(), err)
		}
	}
	return "", cause
}

// run starts a created container.
func (b *batch) run(ctx context.Context, c *corev1.Container, id string, attempt uint32) *startError {
	call, cancel := finishing(ctx)
	defer cancel()
	if err := b.syncer.runtime.StartContainer(call, id); err != nil {
		b.record.failedStarts[id] = true
		return b.fail(ctx, c, reasonRunContainer, err)
	}
	b.normal(c, "Started", "Container started")
	b.syncer.linkLog(b.pod, c.Name, id, attempt)
	return nil
}

func (b *batch) normal(c *corev1.Container, reason, message string) {
	b.syncer.normal(b.pod, c.Name, reason, message)
}

func (b *batch) warning(c *corev1.Container, reason, message string) {
	b.syncer.warning(b.pod, c.Name, reason, message)
}

// fail tells the user, unless the pod was told to stop meanwhile.
func (b *batch) fail(ctx context.Context, c *corev1.Container, reason string, err error) *startError {
	if ctx.Err() == nil {
		b.warning(c, "Failed", "Error: "+err.Error())
	}
	return &startError{reason: reason, err: err}
}

// podIPs are the addresses the containers see as the pod's.
func (b *batch) podIPs() []string {
	if b.pod.Spec.HostNetwork {
		return b.syncer.cfg.Node.IPs
	}
	return podstatus.SortIPs(b.ips, b.syncer.cfg.Node.IPs)
}

// randomName returns 8 hexadecimal digits.
func randomName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return hex.EncodeToString(b[:])
}
