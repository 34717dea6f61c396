package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images/registryauth"
)

// containerdHandler is the annotation by which containerd may choose where to unpack an
// image (https://github.com/containerd/containerd/blob/main/docs/snapshotters/README.md).
const containerdHandler = "io.containerd.cri.runtime-handler"

// pullKey is what makes pulls the same.
type pullKey struct {
	image string
	// handler is what may make a runtime unpack an image in another way.
	handler string
	// credentials are the hashes of all that are tried, in their order.
	credentials string
}

func (j *job) pullKey(credentials []registryauth.Credential) pullKey {
	hashes := make([]string, len(credentials))
	for i := range credentials {
		hashes[i] = credentials[i].Hash()
	}
	handler := j.Pod.Annotations[containerdHandler]
	if class := j.Pod.Spec.RuntimeClassName; class != nil {
		handler += "\x00" + *class
	}
	return pullKey{image: j.ref.String(), handler: handler, credentials: strings.Join(hashes, " ")}
}

// pulled is the result of a pull that may be shared; nobody may change it.
type pulled struct {
	image *runtimeapi.Image
	took  time.Duration
	// index is that of the credential that worked; -1 means that none was tried.
	index int
	// unseen says, beside an error, that the image may have come all the same.
	unseen bool
}

// used returns the caller's own credential that is the one that worked; nil means none.
func (p pulled) used(credentials []registryauth.Credential) *registryauth.Credential {
	if p.index < 0 {
		return nil
	}
	return &credentials[p.index]
}

// uninspectedError is about an image that was pulled and that the runtime then did not
// describe.
type uninspectedError struct {
	ref string
	err error
}

func (e *uninspectedError) Error() string { return e.err.Error() }
func (e *uninspectedError) Unwrap() error { return e.err }

// pullOnce pulls an image once for all who wait for it.
func (m *Manager) pullOnce(ctx context.Context, j *job, credentials []registryauth.Credential) (pulled, error) {
	p := m.pulls.begin(j.Image)
	result, err := m.pullInTurn(ctx, j, credentials, p)
	m.pulls.end(p, result.image.GetSize(), err)
	return result, err
}

func (m *Manager) pullInTurn(ctx context.Context, j *job, credentials []registryauth.Credential, p *Pull) (pulled, error) {
	var priority int32
	if j.Pod.Spec.Priority != nil {
		priority = *j.Pod.Spec.Priority
	}
	if err := m.queue.wait(ctx, j.ref.Registry, priority); err != nil {
		return pulled{}, err
	}
	defer m.queue.leave(j.ref.Registry)
	m.pulls.started(p)
	began := time.Now()
	ref, result, err := m.tryAll(ctx, j, credentials)
	if err != nil {
		return result, err
	}
	result.took = time.Since(began)
	result.image, err = m.describe(ctx, ref, j.Image)
	if err != nil {
		return pulled{unseen: true}, &uninspectedError{ref: ref, err: err}
	}
	return result, nil
}

// tryAll pulls with one credential after the other until one works, or without if there
// are none. It returns what the runtime calls the image, and which one worked.
func (m *Manager) tryAll(ctx context.Context, j *job, credentials []registryauth.Credential) (ref string, result pulled, err error) {
	if len(credentials) == 0 {
		ref, err := m.try(ctx, j, nil)
		return ref, pulled{index: -1, unseen: unseen(ctx, err)}, err
	}
	var errs []error
	for i := range credentials {
		ref, err := m.try(ctx, j, authConfig(&credentials[i]))
		if err == nil {
			return ref, pulled{index: i}, nil
		}
		result.unseen = result.unseen || unseen(ctx, err)
		if ended(ctx) != nil {
			return "", result, err
		}
		errs = append(errs, err)
	}
	if len(errs) == 1 {
		return "", result, errs[0]
	}
	return "", result, &triesError{errs}
}

// unseen reports whether a pull that the runtime was asked for may have brought the image,
// or may yet, although it failed with err: the runtime did not say that it failed.
func unseen(ctx context.Context, err error) bool {
	switch {
	case err == nil, errors.Is(err, errQPS):
		return false
	case ended(ctx) != nil:
		return true
	}
	for _, kind := range []error{runtime.ErrRuntimeDown, runtime.ErrClosed, runtime.ErrMalformed, runtime.ErrTooLarge} {
		if errors.Is(err, kind) {
			return true
		}
	}
	// The errors of other clients do not tell who says that something is unavailable.
	_, ours := errors.AsType[*runtime.OpError](err)
	return !ours && status.Code(err) == codes.Unavailable
}

func (m *Manager) try(ctx context.Context, j *job, auth *runtimeapi.AuthConfig) (string, error) {
	if !m.limiter.take(time.Now()) {
		return "", errQPS
	}
	return m.runtime.PullImage(ctx, j.spec, auth, j.Sandbox)
}

// authConfig is a credential in the form of CRI. Runtimes prefer a user name to an
// identity token, but the name that comes with a token is only for show.
func authConfig(c *registryauth.Credential) *runtimeapi.AuthConfig {
	if c.IdentityToken != "" {
		return &runtimeapi.AuthConfig{IdentityToken: c.IdentityToken}
	}
	return &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password}
}

// describe returns what the runtime knows of an image that it has just pulled.
func (m *Manager) describe(ctx context.Context, ref, name string) (*runtimeapi.Image, error) {
	resp, err := m.runtime.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: ref, UserSpecifiedImage: name}, false)
	if err != nil {
		return nil, err
	}
	if resp.GetImage().GetId() == "" {
		return nil, fmt.Errorf("image %q was pulled as %s, which the runtime does not know", name, ref)
	}
	return resp.GetImage(), nil
}

// triesError is what went wrong with each of several credentials.
type triesError struct{ errs []error }

func (e *triesError) Error() string {
	texts := make([]string, len(e.errs))
	for i, err := range e.errs {
		texts[i] = words(err)
	}
	return fmt.Sprintf("none of %d credentials worked: %s", len(texts), strings.Join(slices.Compact(texts), "; "))
}

func (e *triesError) Unwrap() []error { return e.errs }

// newPullError is the *Error for a pull that failed. Several tries have the reason that
// all of them have.
func newPullError(image string, err error) *Error {
	tries, ok := errors.AsType[*triesError](err)
	if !ok {
		reason, message := classify(image, err)
		return &Error{Reason: reason, Err: err, message: message}
	}
	failure := &Error{Reason: PullFailed, Err: err, message: err.Error()}
	for i, one := range tries.errs {
		reason, _ := classify(image, one)
		if i > 0 && reason != failure.Reason {
			failure.Reason = PullFailed
			break
		}
		failure.Reason = reason
	}
	return failure
}

// pullList has the pulls under way.
type pullList struct {
	hook func(Pull)
	// mu guards the list and what it points to.
	mu   sync.Mutex
	list []*Pull
}

func (l *pullList) begin(image string) *Pull {
	p := &Pull{Image: image, Phase: Queued, Asked: time.Now()}
	l.mu.Lock()
	l.list = append(l.list, p)
	l.mu.Unlock()
	l.tell(p)
	return p
}

func (l *pullList) started(p *Pull) {
	l.mu.Lock()
	p.Phase, p.Began = Pulling, time.Now()
	l.mu.Unlock()
	l.tell(p)
}

func (l *pullList) end(p *Pull, size uint64, err error) {
	l.mu.Lock()
	p.Phase, p.Ended, p.Size, p.Err = Succeeded, time.Now(), size, err
	if err != nil {
		p.Phase = Failed
	}
	l.list = slices.DeleteFunc(l.list, func(o *Pull) bool { return o == p })
	l.mu.Unlock()
	l.tell(p)
}

func (l *pullList) tell(p *Pull) {
	if l.hook == nil {
		return
	}
	l.mu.Lock()
	now := *p
	l.mu.Unlock()
	l.hook(now)
}

func (l *pullList) all() []Pull {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Pull
	for _, p := range l.list {
		all = append(all, *p)
	}
	return all
}
