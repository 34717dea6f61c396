package images_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestSamePullsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, slow("web:1", time.Minute))
		began := time.Now()
		var wg sync.WaitGroup
		for i, name := range []string{"web:1", "docker.io/library/web:1", "web:1", "library/web:1"} {
			wg.Go(func() {
				elapse(time.Duration(i) * 10 * time.Second)
				w.want(w.ensure(pod(fmt.Sprint("p", i)), name, ""), "ok")
			})
		}
		wg.Wait()
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want one pull of a minute", took)
		}
		w.wantPulls(1)
	})
}

// Who brings other credentials must not profit from the pull of somebody else's.
func TestPullsWithOtherCredentialsAreOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, slow("reg.example/web:1", time.Minute))
		w.secret("one", "one")
		w.secret("copy", "one")
		w.secret("two", "two")
		class := "kata"
		special := pod("special")
		special.Spec.RuntimeClassName = &class
		var wg sync.WaitGroup
		for _, p := range []*corev1.Pod{pod("a", "one"), pod("b", "copy"), pod("c", "two"), pod("d"), pod("e", "one", "two"), special} {
			wg.Go(func() { w.want(w.ensure(p, "reg.example/web:1", ""), "ok") })
		}
		wg.Wait()
		w.wantPulls(5)
	})
}

// The pull of many goes on when the one who asked first gives up.
func TestFirstOneGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, slow("web:1", time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() { w.want(w.ensureCtx(ctx, pod("a"), "web:1", ""), "context deadline exceeded") })
		wg.Go(func() {
			elapse(10 * time.Second)
			w.want(w.ensure(pod("b"), "web:1", ""), "ok")
		})
		wg.Wait()
		w.wantPulls(1)
	})
}

func TestParallelPulls(t *testing.T) {
	regs := func(registry string, n int) []string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf("%s/i%d:1", registry, i))
		}
		return names
	}
	for _, c := range []struct {
		name  string
		cfg   images.Config
		names []string
		// want is when the last of the pulls ends, each of which takes a minute.
		want time.Duration
	}{
		{"default, one registry", images.Config{}, regs("a.example", 6), 2 * time.Minute},
		{"default, two registries", images.Config{}, append(regs("a.example", 3), regs("b.example", 3)...), time.Minute},
		{"default, three registries", images.Config{}, append(append(regs("a.example", 3), regs("b.example", 3)...), regs("c.example", 1)...), 2 * time.Minute},
		{"serial", images.Config{MaxParallel: 1}, regs("a.example", 3), 3 * time.Minute},
		{"as configured", images.Config{MaxParallel: 5}, regs("a.example", 10), 2 * time.Minute},
		{"as configured by registry", images.Config{MaxParallel: 5, MaxPerRegistry: 1}, regs("a.example", 3), 3 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var known []runtimetest.Image
				for _, name := range c.names {
					known = append(known, slow(name, time.Minute))
				}
				w := newWorld(t, c.cfg, known...)
				began := time.Now()
				var wg sync.WaitGroup
				for i, name := range c.names {
					wg.Go(func() { w.want(w.ensure(pod(fmt.Sprint("p", i)), name, ""), "ok") })
				}
				wg.Wait()
				if took := time.Since(began); took != c.want {
					t.Errorf("it took %v, want %v", took, c.want)
				}
			})
		})
	}
}

// A registry that is slow keeps nobody from another one, and critical pods go first.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{MaxParallel: 2, MaxPerRegistry: 1},
			slow("slow.example/a:1", time.Hour), slow("slow.example/b:1", time.Hour), slow("fast.example/a:1", time.Second),
			slow("fast.example/b:1", time.Second), slow("fast.example/c:1", time.Second))
		critical := pod("critical")
		priority := int32(2000000000)
		critical.Spec.Priority = &priority
		began := time.Now()
		var mu sync.Mutex
		ended := map[string]time.Duration{}
		var wg sync.WaitGroup
		for i, image := range []string{"slow.example/a:1", "slow.example/b:1", "fast.example/a:1", "fast.example/b:1", "fast.example/c:1"} {
			wg.Go(func() {
				elapse(time.Duration(i) * time.Millisecond) // so that they come in this order
				p := pod(image[:1] + fmt.Sprint(i))
				if image == "fast.example/c:1" {
					p = critical
				}
				w.want(w.ensure(p, image, ""), "ok")
				mu.Lock()
				defer mu.Unlock()
				ended[image] = time.Since(began).Truncate(time.Second)
			})
		}
		elapse(100 * time.Millisecond)
		var phases []string
		for _, p := range w.manager.Pulls() {
			phases = append(phases, p.Image+" "+p.Phase.String())
		}
		if got, want := fmt.Sprint(phases), "[slow.example/a:1 pulling slow.example/b:1 queued fast.example/a:1 pulling fast.example/b:1 queued fast.example/c:1 queued]"; got != want {
			t.Errorf("pulls under way are %s, want %s", got, want)
		}
		wg.Wait()
		for image, want := range map[string]time.Duration{
			"fast.example/a:1": time.Second, "fast.example/c:1": 2 * time.Second, "fast.example/b:1": 3 * time.Second,
			"slow.example/a:1": time.Hour, "slow.example/b:1": 2 * time.Hour,
		} {
			if ended[image] != want {
				t.Errorf("%s is there after %v, want %v", image, ended[image], want)
			}
		}
	})
}

func TestWaitingForAPlaceIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{MaxParallel: 1}, slow("a:1", time.Minute), slow("b:1", time.Minute), slow("c:1", time.Minute))
		began := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() { w.want(w.ensure(pod("a"), "a:1", ""), "ok") })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.want(w.ensureCtx(ctx, pod("b"), "b:1", ""), "context deadline exceeded")
		w.want(w.ensure(pod("c"), "c:1", ""), "ok")
		wg.Wait()
		if took := time.Since(began); took != 2*time.Minute {
			t.Errorf("it took %v, want two pulls", took)
		}
	})
}

func TestCredentialsAreTriedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "reg.example/web:1", Pull: &runtimetest.Pull{}})
		w.secret("old", "old")
		w.secret("copy", "old")
		w.secret("new", "new")
		w.secret("next", "next")
		w.server.Inject("PullImage", runtimetest.Fault{Err: errors.New("401"), Match: func(req proto.Message) bool {
			r, ok := req.(*runtimeapi.PullImageRequest)
			return ok && r.GetAuth().GetUsername() != "new"
		}})
		w.want(w.ensure(pod("a", "old", "copy", "new", "next"), "reg.example/web:1", ""), "ok")
		if got := w.users(); got != "old new" {
			t.Errorf("users tried are %q, want old new", got)
		}
		w.server.ForgetCalls()
		w.want(w.ensure(pod("b", "old", "next"), "reg.example/web:1", corev1.PullAlways), "ErrImagePull after 10s")
		if got := w.users(); got != "old next" {
			t.Errorf("users tried are %q, want old next", got)
		}
		// None of them is anonymous.
		w.server.ForgetCalls()
		w.want(w.ensure(pod("c"), "reg.example/web:1", corev1.PullAlways), "ErrImagePull after 10s")
		if got := w.users(); got != "" {
			t.Errorf("users tried are %q, want nobody", got)
		}
	})
}

// The secrets of a pod are one keyring: the most specific path of any goes first.
func TestSecretsAreOneKeyring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "reg.example/team/web:1", Pull: &runtimetest.Pull{}})
		w.secret("broad", "broad")
		w.secret("team", "")
		w.secrets["ns/team"].Data[corev1.DockerConfigJsonKey] = []byte(
			`{"auths":{"reg.example/team":{"username":"team","password":"p"},"*.example":{"username":"late","password":"p"}}}`)
		w.server.Inject("PullImage", runtimetest.Fault{Err: errors.New("401")})
		w.want(w.ensure(pod("a", "broad", "team"), "reg.example/team/web:1", ""), "ErrImagePull after 10s")
		if got := w.users(); got != "team broad late" {
			t.Errorf("users tried are %q, want team broad late", got)
		}
	})
}

// Several tries have the reason that all of them have.
func TestReasonsOfSeveralTries(t *testing.T) {
	unavailable, refused := errors.New("RegistryUnavailable: no route"), errors.New("401")
	for _, c := range []struct {
		name        string
		first, next error
		want        string
	}{
		{"all the same", unavailable, unavailable, "RegistryUnavailable after 10s"},
		{"one after another", refused, unavailable, "ErrImagePull after 10s"},
		{"one before another", unavailable, refused, "ErrImagePull after 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, images.Config{}, runtimetest.Image{Name: "reg.example/web:1", Pull: &runtimetest.Pull{}})
				w.secret("one", "one")
				w.secret("two", "two")
				w.server.Inject("PullImage", runtimetest.Fault{Times: 1, Err: c.first})
				w.server.Inject("PullImage", runtimetest.Fault{Times: 1, Err: c.next})
				w.want(w.ensure(pod("a", "one", "two"), "reg.example/web:1", ""), c.want)
				w.wantPulls(2)
			})
		})
	}
}

func TestSecretsThatCannotBeHad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "reg.example/web:1", Pull: &runtimetest.Pull{}})
		w.secret("good", "good")
		w.secret("broken", "x")
		w.secrets["ns/broken"].Data[corev1.DockerConfigJsonKey] = []byte("s3cret")
		p := pod("a", "absent", "good", "broken", "")
		w.want(w.ensure(p, "reg.example/web:1", ""), "ok")
		if got := w.users(); got != "good" {
			t.Errorf("users tried are %q, want good", got)
		}
		w.wantEvents(`a Normal Pulling: Pulling image "reg.example/web:1"`, `a Normal Pulled: Successfully pulled image "reg.example/web:1" in 0s (0s including waiting). Image size: 1048576 bytes.`)
		w.server.Inject("PullImage", runtimetest.Fault{Err: errors.New("401")})
		w.want(w.ensure(p, "reg.example/web:1", corev1.PullAlways), "ErrImagePull after 10s")
		w.wantEvents(`a Normal Pulling: Pulling image "reg.example/web:1"`,
			`a Warning FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (absent, broken); attempting to pull the image may not succeed.`,
			`a Warning Failed: Failed to pull image "reg.example/web:1": 401; not all credentials could be had: image pull secret ns/absent: not found; secret ns/broken: read Docker configuration: it is not JSON of the expected form`,
			`a Warning Failed: Error: ErrImagePull`)
	})
}

// Whatever pods come and go: everybody who stays gets the image, the runtime never has
// two pulls of it with the same credentials, and never more than the limit.
func TestRandomPods(t *testing.T) {
	type asker struct{ start, patience, image, secret int }
	rapid.Check(t, func(rt *rapid.T) {
		askers := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) asker {
			return asker{
				start: rapid.IntRange(0, 100).Draw(rt, "start"), patience: rapid.SampledFrom([]int{5, 30, 10000}).Draw(rt, "patience"),
				image: rapid.IntRange(0, 3).Draw(rt, "image"), secret: rapid.IntRange(0, 2).Draw(rt, "secret"),
			}
		}), 1, 15).Draw(rt, "askers")
		limit := rapid.IntRange(1, 3).Draw(rt, "limit")
		synctest.Test(t, func(t *testing.T) {
			rt := &countingRuntime{TB: t, limit: int32(limit), active: map[string]int{}}
			w := &world{TB: t, secrets: map[string]*corev1.Secret{}}
			w.secret("s0", "zero")
			w.secret("s1", "one")
			w.secret("s2", "one") // another secret with the same credential
			m, err := images.New(rt, images.Config{MaxParallel: limit, Credentials: images.Credentials{
				Secret: func(_ context.Context, namespace, name string) (*corev1.Secret, error) {
					return w.secrets[namespace+"/"+name], nil
				},
			}})
			if err != nil {
				t.Fatal(err)
			}
			w.manager = m
			var wg sync.WaitGroup
			for i, a := range askers {
				wg.Go(func() {
					elapse(time.Duration(a.start) * time.Second)
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(a.patience)*time.Second)
					defer cancel()
					got := w.ensureCtx(ctx, pod(fmt.Sprint("p", i), fmt.Sprint("s", a.secret)), fmt.Sprintf("reg.example/i%d:1", a.image), corev1.PullAlways)
					if got != "ok" && (a.patience == 10000 || got != "context deadline exceeded") {
						t.Errorf("asker %+v got %q", a, got)
					}
				})
			}
			wg.Wait()
			if n := rt.total.Load(); int(n) > len(askers) {
				t.Errorf("%d pulls for %d askers", n, len(askers))
			}
			if pulls := m.Pulls(); len(pulls) != 0 {
				t.Errorf("pulls under way are %+v, want none", pulls)
			}
		})
	})
}

// countingRuntime takes 20 s for a pull and watches over limits. It is quicker than a
// server, for the many rounds of a property test.
type countingRuntime struct {
	testing.TB
	limit int32
	now   atomic.Int32
	total atomic.Int32
	mu    sync.Mutex
	// active counts pulls by image and user.
	active map[string]int
}

func (r *countingRuntime) ImageStatus(_ context.Context, image *runtimeapi.ImageSpec, _ bool) (*runtimeapi.ImageStatusResponse, error) {
	return &runtimeapi.ImageStatusResponse{Image: &runtimeapi.Image{Id: image.GetImage(), Size: 1}}, nil
}

func (r *countingRuntime) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, _ *runtimeapi.PodSandboxConfig) (string, error) {
	r.total.Add(1)
	if n := r.now.Add(1); n > r.limit {
		r.Errorf("%d pulls at a time, want at most %d", n, r.limit)
	}
	defer r.now.Add(-1)
	key := image.GetImage() + " " + auth.GetUsername()
	r.count(key, 1)
	defer r.count(key, -1)
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(20 * time.Second):
		return "sha256:" + image.GetImage(), nil
	}
}

func (r *countingRuntime) count(key string, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.active[key] += n; r.active[key] > 1 {
		r.Errorf("two pulls of %s at a time", key)
	}
}
