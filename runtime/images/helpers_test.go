package images_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

var _ images.Runtime = (*runtime.Client)(nil)

// world is a Manager on a runtime for tests, with the secrets of an API.
type world struct {
	testing.TB
	server  *runtimetest.Server
	manager *images.Manager

	mu      sync.Mutex
	secrets map[string]*corev1.Secret
	events  []string
	pulls   []images.Pull
	asked   []images.Asked
}

// newWorld runs in a bubble.
func newWorld(tb testing.TB, cfg images.Config, present ...runtimetest.Image) *world {
	tb.Helper()
	w := &world{TB: tb, secrets: map[string]*corev1.Secret{}}
	w.server = runtimetest.Start(tb, runtimetest.Config{Images: present})
	cfg.Credentials.Secret = func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
		if s := w.secrets[namespace+"/"+name]; s != nil {
			return s, nil
		}
		return nil, errors.New("not found")
	}
	cfg.Hooks = images.Hooks{
		Event: func(pod *corev1.Pod, e images.Event) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, fmt.Sprintf("%s %s %s: %s", pod.Name, e.Type, e.Reason, e.Message))
		},
		Pull:  func(p images.Pull) { w.mu.Lock(); defer w.mu.Unlock(); w.pulls = append(w.pulls, p) },
		Asked: func(a images.Asked) { w.mu.Lock(); defer w.mu.Unlock(); w.asked = append(w.asked, a) },
	}
	m, err := images.New(w.server.Client(tb), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	w.manager = m
	return w
}

// secret stores a pull secret for any registry under .example.
func (w *world) secret(name, user string) {
	w.secrets["ns/"+name] = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)},
		Type:       corev1.SecretTypeDockerConfigJson,
		Data:       map[string][]byte{corev1.DockerConfigJsonKey: fmt.Appendf(nil, `{"auths":{"*.example":{"username":%q,"password":"p"}}}`, user)},
	}
}

func pod(name string, secrets ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
	for _, s := range secrets {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: s})
	}
	return p
}

// ensure asks for an image and returns what came of it in one line.
func (w *world) ensure(p *corev1.Pod, image string, policy corev1.PullPolicy) string {
	w.Helper()
	return w.ensureCtx(w.Context(), p, image, policy)
}

func (w *world) ensureCtx(ctx context.Context, p *corev1.Pod, image string, policy corev1.PullPolicy) string {
	w.Helper()
	got, err := w.manager.ForContainer(ctx, p, &corev1.Container{Name: "app", Image: image, ImagePullPolicy: policy}, nil)
	if err == nil {
		if got.GetId() == "" {
			w.Error("image has no id")
		}
		return "ok"
	}
	failure, ok := errors.AsType[*images.Error](err)
	if !ok {
		return err.Error()
	}
	if failure.WaitingReason() != string(failure.Reason) || failure.Image != image {
		w.Errorf("error is %+v, want it to be about %s", failure, image)
	}
	return fmt.Sprintf("%s after %v", failure.Reason, failure.RetryAfter())
}

// want checks what came of it.
func (w *world) want(got, want string) {
	w.Helper()
	if got != want {
		w.Errorf("request ends with %q, want %q", got, want)
	}
}

// wantEvents checks and forgets the events so far.
func (w *world) wantEvents(want ...string) {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.events, "\n\t"); got != strings.Join(want, "\n\t") {
		w.Errorf("events are\n\t%s\nwant\n\t%s", got, strings.Join(want, "\n\t"))
	}
	w.events = nil
}

// pullCalls is how often the runtime was asked for a pull.
func (w *world) pullCalls() int { return len(w.server.Calls("PullImage")) }

func (w *world) wantPulls(want int) {
	w.Helper()
	if got := w.pullCalls(); got != want {
		w.Errorf("runtime was asked for %d pulls, want %d", got, want)
	}
}

// users are the users with whom the runtime was asked for pulls.
func (w *world) users() string {
	var users []string
	for _, c := range w.server.Calls("PullImage") {
		r, ok := c.Request.(*runtimeapi.PullImageRequest)
		if !ok {
			w.Fatalf("request is a %T", c.Request)
		}
		users = append(users, r.GetAuth().GetUsername())
	}
	return strings.Join(users, " ")
}

// slow is an image whose pull takes a while.
func slow(name string, takes time.Duration) runtimetest.Image {
	return runtimetest.Image{Name: name, Pull: &runtimetest.Pull{Takes: takes}}
}

func elapse(d time.Duration) { <-time.After(d) }
