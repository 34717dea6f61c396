package runtimetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// container is one container. The world's lock guards it.
type container struct {
	id string
	// serial is larger than those of all older containers; times may be the same.
	serial  int
	sandbox *sandbox
	config  *runtimeapi.ContainerConfig
	image   *runtimeapi.Image
	created time.Time
	// process is nil until the container is started.
	process *process
	// end is set when the container has exited.
	end *ending
}

// process is a container that was started.
type process struct {
	life    Life
	started time.Time
	log     *logFile
	// unsaid are the lines to come, in their order.
	unsaid []LogLine
	// timers are all that the life still has to do, but for the lines; voice is theirs.
	timers []*time.Timer
	voice  *time.Timer
	// done is closed at the end.
	done chan struct{}
	// attached are the clients that see what the container writes.
	attached audience
}

// ending is how a container exited.
type ending struct {
	at      time.Time
	code    int32
	reason  string
	message string
}

// containerName is what a runtime reserves: no two containers have the same.
func containerName(c *runtimeapi.ContainerMetadata, s *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("%s_%s_%s_%s_%d", c.GetName(), s.GetName(), s.GetNamespace(), s.GetUid(), c.GetAttempt())
}

func (c *container) state() runtimeapi.ContainerState {
	switch {
	case c.end != nil:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case c.process != nil:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	default:
		return runtimeapi.ContainerState_CONTAINER_CREATED
	}
}

func (c *container) running() bool { return c.state() == runtimeapi.ContainerState_CONTAINER_RUNNING }

func (w *world) createContainer(req *runtimeapi.CreateContainerRequest) (string, error) {
	config := req.GetConfig()
	switch {
	case config.GetMetadata().GetName() == "":
		return "", invalid("CreateContainer: metadata needs a name")
	case config.GetImage().GetImage() == "":
		return "", invalid("CreateContainer %s: no image", config.GetMetadata().GetName())
	case req.GetSandboxConfig() == nil:
		return "", invalid("CreateContainer %s: no sandbox_config", config.GetMetadata().GetName())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.readySandboxLocked(req.GetPodSandboxId())
	if err != nil {
		return "", err
	}
	name := containerName(config.GetMetadata(), s.config.GetMetadata())
	if owner, taken := w.containerNames[name]; taken {
		if w.kind == CRIO {
			return owner, nil
		}
		return "", w.kind.reserved("container", name, owner)
	}
	image := w.images.find(config.GetImage().GetImage())
	if image == nil {
		return "", status.Errorf(codes.NotFound, "failed to resolve image %q: not found", config.GetImage().GetImage())
	}
	c := &container{id: w.newIDLocked("container " + name), sandbox: s, config: clone(config), image: image, created: time.Now()}
	c.serial = w.serial
	w.containers[c.id] = c
	w.containerNames[name] = c.id
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT, c.id, s)
	return c.id, nil
}

func (w *world) startContainer(id string) error {
	life, err := w.lifeOf(id)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.containers[id]
	switch {
	case c == nil:
		return notFound("container", id)
	case c.state() != runtimeapi.ContainerState_CONTAINER_CREATED:
		return status.Errorf(codes.Unknown, "failed to set starting state for container %q: container is in %s state", id, c.state())
	case !c.sandbox.ready:
		return status.Errorf(codes.Unknown, "sandbox container %q is not running", c.sandbox.id)
	case life.StartError != "":
		c.end = &ending{at: time.Now(), code: exitStartError, reason: "StartError", message: life.StartError}
		return status.Errorf(codes.Unknown, "failed to start container %q: %s", id, life.StartError)
	}
	log, err := openLog(c.logPath())
	if err != nil {
		return status.Errorf(codes.Unknown, "failed to start container %q: %v", id, err)
	}
	w.beginLocked(c, life, log)
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT, c.id, c.sandbox)
	return nil
}

// tryStart removes a created container that could not be started: CRI-O has the process
// ready after CreateContainer, so that a command that is not there fails that call.
func (w *world) tryStart(id string) error {
	life, err := w.lifeOf(id)
	if err != nil || life.StartError == "" {
		return err
	}
	w.removeContainer(id)
	return status.Errorf(codes.Unknown, "container create failed: %s", life.StartError)
}

// lifeOf asks the script without the lock, because the script may ask the server.
func (w *world) lifeOf(id string) (Life, error) {
	w.mu.Lock()
	c := w.containers[id]
	if c == nil {
		w.mu.Unlock()
		return Life{}, notFound("container", id)
	}
	start := c.instanceLocked()
	lives := w.lives[c.config.GetMetadata().GetName()]
	w.mu.Unlock()
	if len(lives) > 0 {
		return lives[min(int(start.Config.GetMetadata().GetAttempt()), len(lives)-1)], nil
	}
	if w.script != nil {
		if life := w.script(start); life != nil {
			return *life, nil
		}
	}
	return Life{}, nil
}

func (w *world) beginLocked(c *container, life Life, log *logFile) {
	p := &process{life: life, started: time.Now(), log: log, done: make(chan struct{})}
	c.process = p
	p.unsaid = slices.Clone(life.Log)
	slices.SortStableFunc(p.unsaid, func(a, b LogLine) int { return cmp.Compare(a.After, b.After) })
	w.speakLocked(c)
	if life.Exit != nil {
		w.scheduleLocked(c, *life.Exit)
	}
}

// speakLocked writes the lines that are due, and comes back for the next one.
func (w *world) speakLocked(c *container) {
	p := c.process
	p.sayLocked()
	if len(p.unsaid) == 0 {
		return
	}
	p.voice = time.AfterFunc(time.Until(p.started.Add(p.unsaid[0].After)), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !p.over() {
			w.speakLocked(c)
		}
	})
}

// sayLocked writes the lines that are due.
func (p *process) sayLocked() {
	for passed := time.Since(p.started); len(p.unsaid) > 0 && p.unsaid[0].After <= passed; p.unsaid = p.unsaid[1:] {
		p.write(p.unsaid[0])
	}
}

// scheduleLocked makes c exit after e.After, unless it has exited by then.
func (w *world) scheduleLocked(c *container, e Exit) {
	c.process.timers = append(c.process.timers, time.AfterFunc(e.After, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.exitLocked(c, e)
	}))
}

// exitLocked ends a running container; it does nothing to one that does not run.
func (w *world) exitLocked(c *container, e Exit) {
	if !c.running() {
		return
	}
	c.process.sayLocked()
	code, reason := e.result()
	c.end = &ending{at: time.Now(), code: code, reason: reason}
	c.dropLocked()
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, c.id, c.sandbox)
}

// dropLocked stops everything that a process has going.
func (c *container) dropLocked() {
	p := c.process
	if p == nil || p.over() {
		return
	}
	for _, t := range p.timers {
		t.Stop()
	}
	if p.voice != nil {
		p.voice.Stop()
	}
	p.log.close()
	close(p.done)
}

func (p *process) over() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stopContainer sends SIGTERM, waits for grace and then kills.
func (w *world) stopContainer(ctx context.Context, id string, grace time.Duration) error {
	w.mu.Lock()
	c := w.containers[id]
	if c == nil {
		w.mu.Unlock()
		if w.kind.stopsUnknown() {
			return nil
		}
		return notFound("container", id)
	}
	if !c.running() {
		w.mu.Unlock()
		return nil
	}
	if grace <= 0 {
		w.exitLocked(c, killed())
		w.mu.Unlock()
		return nil
	}
	p := c.process
	if !p.life.IgnoreTerm {
		// Being asked twice changes nothing: the first end comes first.
		w.scheduleLocked(c, p.life.term())
	}
	w.mu.Unlock()

	kill := time.NewTimer(grace)
	defer kill.Stop()
	select {
	case <-p.done:
	case <-kill.C:
		w.mu.Lock()
		w.exitLocked(c, killed())
		w.mu.Unlock()
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

// removeContainer removes a container, by force; an unknown one counts as removed.
func (w *world) removeContainer(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c := w.containers[id]; c != nil {
		w.removeContainerLocked(c)
	}
}

func (w *world) removeContainerLocked(c *container) {
	w.exitLocked(c, killed())
	delete(w.containers, c.id)
	delete(w.containerNames, containerName(c.config.GetMetadata(), c.sandbox.config.GetMetadata()))
	w.publishLocked(runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT, c.id, c.sandbox)
}

// logPath is empty unless both halves of it are given, as in CRI.
func (c *container) logPath() string {
	dir, name := c.sandbox.config.GetLogDirectory(), c.config.GetLogPath()
	if dir == "" || name == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

func (w *world) containerStatus(id string) (*runtimeapi.ContainerStatus, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.containers[id]
	if c == nil {
		return nil, notFound("container", id)
	}
	return c.statusLocked(), nil
}

func (c *container) statusLocked() *runtimeapi.ContainerStatus {
	st := &runtimeapi.ContainerStatus{
		Id:          c.id,
		Metadata:    clone(c.config.GetMetadata()),
		State:       c.state(),
		CreatedAt:   c.created.UnixNano(),
		Image:       c.imageSpec(),
		ImageRef:    imageRef(c.image),
		ImageId:     c.image.GetId(),
		Labels:      maps.Clone(c.config.GetLabels()),
		Annotations: maps.Clone(c.config.GetAnnotations()),
		Mounts:      clone(c.config).GetMounts(),
		LogPath:     c.logPath(),
		Resources:   &runtimeapi.ContainerResources{Linux: clone(c.config.GetLinux().GetResources())},
		StopSignal:  c.config.GetStopSignal(),
	}
	if c.process != nil {
		st.StartedAt = c.process.started.UnixNano()
	}
	if c.end != nil {
		st.FinishedAt = c.end.at.UnixNano()
		st.ExitCode = c.end.code
		st.Reason = c.end.reason
		st.Message = c.end.message
	}
	return st
}

// imageSpec names the image as the runtime knows it, whatever it was asked for by.
func (c *container) imageSpec() *runtimeapi.ImageSpec {
	spec := clone(c.config.GetImage())
	if tags := c.image.GetRepoTags(); len(tags) > 0 {
		spec.Image = tags[0]
	}
	return spec
}

func (w *world) listContainers(f *runtimeapi.ContainerFilter) []*runtimeapi.Container {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []*runtimeapi.Container
	for _, c := range w.containers {
		if (f.GetId() != "" && f.GetId() != c.id) ||
			(f.GetPodSandboxId() != "" && f.GetPodSandboxId() != c.sandbox.id) ||
			(f.GetState() != nil && f.GetState().GetState() != c.state()) ||
			!matchLabels(f.GetLabelSelector(), c.config.GetLabels()) {
			continue
		}
		found = append(found, &runtimeapi.Container{
			Id:           c.id,
			PodSandboxId: c.sandbox.id,
			Metadata:     clone(c.config.GetMetadata()),
			Image:        c.imageSpec(),
			ImageRef:     imageRef(c.image),
			ImageId:      c.image.GetId(),
			State:        c.state(),
			CreatedAt:    c.created.UnixNano(),
			Labels:       maps.Clone(c.config.GetLabels()),
			Annotations:  maps.Clone(c.config.GetAnnotations()),
		})
	}
	return found
}

func (w *world) updateResources(req *runtimeapi.UpdateContainerResourcesRequest) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.containers[req.GetContainerId()]
	if c == nil {
		return w.kind.unknownContainer(req.GetContainerId())
	}
	if c.end != nil {
		return status.Errorf(codes.Unknown, "failed to update resources: container is in %s state", c.state())
	}
	if c.config.Linux == nil {
		c.config.Linux = &runtimeapi.LinuxContainerConfig{}
	}
	if c.config.Linux.Resources == nil {
		c.config.Linux.Resources = &runtimeapi.LinuxContainerResources{}
	}
	proto.Merge(c.config.Linux.Resources, req.GetLinux()) // what is 0 or empty stays as it is
	return nil
}

// running is the container and its process for a call that needs one.
func (w *world) running(id string) (Instance, *process, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.containers[id]
	if c == nil {
		return Instance{}, nil, notFound("container", id)
	}
	if !c.running() && w.kind == CRIO {
		return Instance{}, nil, status.Errorf(codes.NotFound, "container is not created or running: %s", c.state())
	}
	if !c.running() {
		return Instance{}, nil, status.Errorf(codes.Unknown, "container is in %s state", c.state())
	}
	return c.instanceLocked(), c.process, nil
}

func (c *container) instanceLocked() Instance {
	return Instance{ID: c.id, Sandbox: clone(c.sandbox.config), Config: clone(c.config)}
}
