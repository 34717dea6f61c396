package podsync

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

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
	seen      *podstatus.Observed
	ips       []string
	grant     podspec.Grant
	config    *runtimeapi.PodSandboxConfig
	// crew are those that start containers of the pod now; second is true for all of them
	// but the first.
	crew   *crew
	second bool
}

// startAll starts containers one after the other. A failure does not keep the next
// from starting, unless an init container has to end before them.
func (b *batch) startAll(ctx context.Context, starts []Start) {
	failed := b.prepare(ctx)
	if failed != nil {
		failed = fmt.Errorf("start containers of pod %s/%s: %w", b.pod.Namespace, b.pod.Name, failed)
	}
	for i := range starts {
		name := starts[i].Name
		if !b.second && !b.crew.claim(name) {
			continue
		}
		err := failed
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if err != nil {
			b.crew.settle(name, err)
			return
		}
		err = b.start(ctx, &starts[i])
		b.crew.settle(name, err)
		if err != nil && starts[i].Kind == Init {
			return
		}
	}
}

// prepare finds the sandbox and what it was configured with.
func (b *batch) prepare(ctx context.Context) error {
	at := slices.IndexFunc(b.seen.Sandboxes, func(sb podstatus.Sandbox) bool { return sb.ID == b.sandboxID })
	if at < 0 {
		return fmt.Errorf("the runtime does not list sandbox %s yet", b.sandboxID)
	}
	b.ips = b.seen.Sandboxes[at].IPs
	var err error
	if b.grant, err = b.syncer.grant(ctx, b.pod, b.record); err != nil {
		return err
	}
	spec, err := podspec.Sandbox(b.pod, b.syncer.node(), podspec.SandboxRun{Attempt: b.seen.Sandboxes[at].Attempt, Grant: b.grant})
	if err != nil {
		return fmt.Errorf("configure sandbox: %w", err)
	}
	b.config = spec.Config
	return nil
}

// start starts one container and records why it could not.
func (b *batch) start(ctx context.Context, st *Start) error {
	c := container(b.pod, st.Name)
	var failure *startError
	if st.ID != "" {
		failure = b.begin(ctx, c, st.ID, st.Attempt)
	} else {
		failure = b.create(ctx, c, st)
	}
	if failure == nil {
		b.record.runs(c.Name)
		return nil
	}
	failure.container = c.Name
	if ctx.Err() != nil {
		return fmt.Errorf("pod %s/%s: %w", b.pod.Namespace, b.pod.Name, failure)
	}
	b.record.wait(c.Name, podstatus.Waiting{Reason: failure.reason, Message: failure.err.Error()})
	return fmt.Errorf("pod %s/%s: %w", b.pod.Namespace, b.pod.Name, failure)
}

// create makes a new container and starts it.
func (b *batch) create(ctx context.Context, c *corev1.Container, st *Start) *startError {
	image, volumes, failure := b.fetch(ctx, c)
	if failure != nil {
		return failure
	}
	run, err := b.run(ctx, c, st, image)
	if err != nil {
		return b.fail(ctx, c, reasonConfig, err)
	}
	run.Images = volumes
	if extras := b.syncer.cfg.Parts.Extras; extras != nil {
		if run.Extra, err = extras.ForContainer(ctx, b.pod, c); err != nil {
			return b.fail(ctx, c, reasonConfig, err)
		}
	}
	spec, err := podspec.Container(b.pod, c, b.syncer.node(), run)
	if err == nil {
		err = b.syncer.fulfil(ctx, c.Name, spec.Paths)
	}
	if err != nil {
		return b.fail(ctx, c, reasonConfig, err)
	}
	id, err := b.createContainer(ctx, spec.Config)
	if err != nil {
		return b.fail(ctx, c, reasonCreate, err)
	}
	b.syncer.dropStep(b.pod, b.record, c.Name)
	b.normal(c, "Created", "Container created")
	return b.begin(ctx, c, id, run.Attempt)
}

// fetch has the image of a container, and those of its volumes, on the node.
func (b *batch) fetch(ctx context.Context, c *corev1.Container) (image, map[string]string, *startError) {
	b.crew.fetch(1)
	defer b.crew.fetch(-1)
	own, failure := b.image(ctx, c)
	if failure != nil {
		return image{}, nil, failure
	}
	volumes, failure := b.volumes(ctx, c)
	return own, volumes, failure
}

// run says which run of a container is made. When the runtime knows of no earlier one
// the logs may, and their numbers go on.
func (b *batch) run(ctx context.Context, c *corev1.Container, st *Start, image image) (podspec.Run, error) {
	run := podspec.Run{
		Attempt: st.Attempt, Backoff: st.Backoff, ImageRef: image.ref, ImageUser: image.user,
		PodIPs: b.podIPs(), MessageFile: randomName(), Grant: b.grant, Volumes: b.record.volumes.list,
	}
	if st.First {
		n, err := nextLogNumber(filepath.Join(b.syncer.cfg.Node.LogDir(b.pod), c.Name))
		if err != nil {
			return podspec.Run{}, err
		}
		run.Attempt = n
		run.Backoff = b.syncer.step(b.pod, b.record, c.Name)
	}
	if b.syncer.cfg.Parts.References != nil {
		run.References = b.syncer.cfg.Parts.References(ctx, b.pod)
	}
	if st.Kind == Ephemeral {
		target, err := b.target(c.Name)
		if err != nil {
			return podspec.Run{}, err
		}
		run.Target = target
	}
	return run, nil
}

// target returns the container whose processes an ephemeral one is to see.
func (b *batch) target(name string) (string, error) {
	at := slices.IndexFunc(b.pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
	if at < 0 || b.pod.Spec.EphemeralContainers[at].TargetContainerName == "" {
		return "", nil
	}
	target := b.pod.Spec.EphemeralContainers[at].TargetContainerName
	run := b.seen.Newest(target)
	if run == nil || run.State != podstatus.StateRunning {
		return "", fmt.Errorf("unable to find target container %q: it does not run", target)
	}
	return run.ID, nil
}

func (b *batch) createContainer(ctx context.Context, config *runtimeapi.ContainerConfig) (string, error) {
	call, cancel := finishing(ctx, callGrace)
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

// begin starts a created container and runs its postStart hook.
func (b *batch) begin(ctx context.Context, c *corev1.Container, id string, attempt uint32) *startError {
	hooked := c.Lifecycle != nil && c.Lifecycle.PostStart != nil
	if hooked {
		b.record.hook(id, true)
		defer b.record.hook(id, false)
	}
	if err := b.startContainer(ctx, id); err != nil {
		b.record.failStart(id)
		return b.fail(ctx, c, reasonRunContainer, err)
	}
	b.normal(c, "Started", "Container started")
	b.syncer.linkLog(b.pod, c.Name, id, attempt)
	if !hooked {
		return nil
	}
	return b.postStart(ctx, c, id)
}

func (b *batch) startContainer(ctx context.Context, id string) error {
	call, cancel := finishing(ctx, startGrace)
	defer cancel()
	return b.syncer.runtime.StartContainer(call, id)
}

// postStart runs the hook of a container that has just been started. Until it returns
// nothing else of the pod starts; if it fails, the container is stopped.
func (b *batch) postStart(ctx context.Context, c *corev1.Container, id string) *startError {
	s := b.syncer
	h := hook{syncer: s, pod: b.pod, container: c.Name, id: id, ports: c.Ports, ended: b.record.ending(id)}
	if ips := b.podIPs(); len(ips) > 0 {
		h.ip = ips[0]
	}
	err := h.run(ctx, c.Lifecycle.PostStart)
	if err == nil {
		return nil
	}
	if ctx.Err() != nil { // the pod is told to stop, and its containers with it
		return &startError{reason: reasonPostStart, err: ctx.Err()}
	}
	// The text of the error may have what a server answered, which is not for everybody.
	b.warning(c, "FailedPostStartHook", "PostStartHook failed")
	stop := Stop{Name: c.Name, ID: id, Message: "FailedPostStartHook"}
	st := stopper{syncer: s, pod: b.pod, record: b.record, seen: b.seen, left: func(*Stop) time.Duration { return grace(b.pod) }}
	return &startError{reason: reasonPostStart, err: errors.Join(err, st.one(ctx, &stop))}
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
	node := b.syncer.node()
	if b.pod.Spec.HostNetwork {
		return node.IPs
	}
	return podstatus.SortIPs(b.ips, node.IPs)
}

// randomName returns 8 hexadecimal digits.
func randomName() string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never returns an error
	return hex.EncodeToString(b[:])
}
