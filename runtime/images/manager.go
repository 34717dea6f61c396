package images

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images/internal/flight"
)

// givenFor is how long Given remembers an image.
const givenFor = 10 * time.Minute

// Manager has the images of pods on the node.
type Manager struct {
	runtime  Runtime
	cfg      Config
	log      *slog.Logger
	queue    *queue
	limiter  *limiter
	backoffs backoffs
	flights  flight.Group[pullKey, pulled]
	pulls    pullList

	// mu guards given.
	mu    sync.Mutex
	given map[string]time.Time
}

// New returns a Manager for the images of a runtime. It does nothing yet.
func New(rt Runtime, cfg Config) (*Manager, error) {
	if rt == nil {
		return nil, fmt.Errorf("images: %w", errNoRuntime)
	}
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("images: %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	m := &Manager{
		runtime: rt,
		cfg:     cfg,
		log:     cfg.Log,
		queue:   &queue{},
		limiter: newLimiter(cfg.QPS, cfg.Burst),
		given:   make(map[string]time.Time),
	}
	m.queue.places, m.queue.perRegistry = cfg.limits()
	m.pulls.hook = cfg.Hooks.Pull
	return m, nil
}

// Request says which image is needed and what for.
type Request struct {
	// Pod is the pod that needs it; it is required and not changed.
	Pod *corev1.Pod
	// Container is the name of the container that it is for; empty for a volume.
	Container string
	// Image is its name as the pod writes it.
	Image string
	// Policy is the pull policy; empty means the API's default, which depends on Image.
	Policy corev1.PullPolicy
	// Sandbox is the configuration of the pod's sandbox, which the runtime may want for
	// the pull; nil if there is none.
	Sandbox *runtimeapi.PodSandboxConfig
}

// ForContainer is Ensure for a container of a pod.
func (m *Manager) ForContainer(ctx context.Context, pod *corev1.Pod, c *corev1.Container, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error) {
	return m.Ensure(ctx, Request{Pod: pod, Container: c.Name, Image: c.Image, Policy: c.ImagePullPolicy, Sandbox: sandbox})
}

// ForVolume is Ensure for a volume of a pod that is an image.
func (m *Manager) ForVolume(ctx context.Context, pod *corev1.Pod, v *corev1.ImageVolumeSource, sandbox *runtimeapi.PodSandboxConfig) (*runtimeapi.Image, error) {
	return m.Ensure(ctx, Request{Pod: pod, Image: v.Reference, Policy: v.PullPolicy, Sandbox: sandbox})
}

// Ensure has an image on the node and returns what the runtime knows of it; its Id is
// how to refer to it, and nothing in it may be changed. Ensure waits for a pull, however
// long it takes. Requests for the
// same image with the same credentials share one pull, which ends when none of them
// waits any more.
//
// The error is an *Error, or that of ctx if ctx ended. A request without a pod is an
// error of its own.
func (m *Manager) Ensure(ctx context.Context, r Request) (*runtimeapi.Image, error) {
	if r.Pod == nil {
		return nil, errNoPod
	}
	j := &job{Manager: m, Request: r}
	image, failure := j.ensure(ctx)
	if gone := ended(ctx); gone != nil && failure != nil {
		return nil, gone
	}
	if failure != nil {
		failure.Image = r.Image
		j.warning("Failed", "Error: "+string(failure.Reason))
		return nil, failure
	}
	m.give(image.GetId())
	return image, nil
}

// ended returns why ctx has ended, nil if it has not. A runtime hears of the deadline
// and may answer that it has passed a moment before ctx knows.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded
	}
	return nil
}

// Forget drops the back-offs of a pod. Without it they end by themselves ten minutes
// after the last failure.
func (m *Manager) Forget(uid types.UID) { m.backoffs.forget(uid) }

// Pulls returns the pulls under way in the order in which they were asked for.
func (m *Manager) Pulls() []Pull { return m.pulls.all() }

// Given returns the ids of the images that Ensure returned in the last ten minutes, and
// when it did last. They should not be removed: a container may be about to start.
func (m *Manager) Given() map[string]time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetGivenLocked(time.Now())
	return maps.Clone(m.given)
}

func (m *Manager) give(id string) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forgetGivenLocked(now)
	m.given[id] = now
}

func (m *Manager) forgetGivenLocked(now time.Time) {
	maps.DeleteFunc(m.given, func(_ string, at time.Time) bool { return now.Sub(at) > givenFor })
}
