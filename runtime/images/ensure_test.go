package images_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestPullPolicies(t *testing.T) {
	const digest = "web@sha256:0000000000000000000000000000000000000000000000000000000000000000"
	for _, c := range []struct {
		name      string
		image     string
		policy    corev1.PullPolicy
		present   bool
		want      string
		wantPulls int
	}{
		{"Always, absent", "web:1", corev1.PullAlways, false, "ok", 1},
		{"Always, present", "web:1", corev1.PullAlways, true, "ok", 1},
		{"IfNotPresent, absent", "web:1", corev1.PullIfNotPresent, false, "ok", 1},
		{"IfNotPresent, present", "web:1", corev1.PullIfNotPresent, true, "ok", 0},
		{"Never, absent", "web:1", corev1.PullNever, false, "ErrImageNeverPull after 0s", 0},
		{"Never, present", "web:1", corev1.PullNever, true, "ok", 0},
		{"default with tag, present", "web:1", "", true, "ok", 0},
		{"default without tag, present", "web", "", true, "ok", 1},
		{"default with latest, present", "web:latest", "", true, "ok", 1},
		{"default with digest, present", digest, "", true, "ok", 0},
		{"unknown", "web:1", "Sometimes", true, "ErrImagePull after 0s", 0},
		{"bad name", "Web:1", corev1.PullAlways, false, "InvalidImageName after 0s", 0},
		{"no name", "", "", false, "InvalidImageName after 0s", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				image := runtimetest.Image{Name: c.image, Pull: &runtimetest.Pull{}}
				if c.present {
					image.Pull = nil
				}
				w := newWorld(t, images.Config{}, image)
				w.want(w.ensure(pod("a"), c.image, c.policy), c.want)
				w.wantPulls(c.wantPulls)
			})
		})
	}
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "web:1", Size: 7, Pull: &runtimetest.Pull{Takes: 1500 * time.Millisecond}},
			runtimetest.Image{Name: "bad:1", Pull: &runtimetest.Pull{Err: status.Error(codes.Unknown, "boom")}})
		w.want(w.ensure(pod("a"), "web:1", ""), "ok")
		w.wantEvents(`a Normal Pulling: Pulling image "web:1"`,
			`a Normal Pulled: Successfully pulled image "web:1" in 1.5s (1.5s including waiting). Image size: 7 bytes.`)
		w.want(w.ensure(pod("a"), "web:1", ""), "ok")
		w.wantEvents(`a Normal Pulled: Container image "web:1" already present on machine`)
		w.want(w.ensure(pod("a"), "bad:1", ""), "ErrImagePull after 10s")
		w.wantEvents(`a Normal Pulling: Pulling image "bad:1"`,
			`a Warning Failed: Failed to pull image "bad:1": failed to pull and unpack image "docker.io/library/bad:1": boom`,
			`a Warning Failed: Error: ErrImagePull`)
		w.want(w.ensure(pod("a"), "bad:1", ""), "ImagePullBackOff after 10s")
		w.wantEvents(`a Normal BackOff: Back-off pulling image "bad:1"`, `a Warning Failed: Error: ImagePullBackOff`)
		w.want(w.ensure(pod("a"), "none:1", corev1.PullNever), "ErrImageNeverPull after 0s")
		w.wantEvents(`a Warning ErrImageNeverPull: Container image "none:1" is not present with pull policy of Never`,
			`a Warning Failed: Error: ErrImageNeverPull`)
		w.want(w.ensure(pod("a"), "a b", ""), "InvalidImageName after 0s")
		w.wantEvents(`a Warning InspectFailed: Failed to apply default image tag "a b": parse image name "a b": invalid reference format: the path has other characters than lower-case letters and digits, joined by ., _, __ or -`,
			`a Warning Failed: Error: InvalidImageName`)
	})
}

func TestWaitingMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "bad:1", Pull: &runtimetest.Pull{Err: status.Error(codes.NotFound, "boom")}})
		for _, want := range []string{
			`failed to pull and unpack image "docker.io/library/bad:1": boom`,
			`Back-off pulling image "bad:1": ErrImagePull: failed to pull and unpack image "docker.io/library/bad:1": boom`,
		} {
			_, err := w.manager.Ensure(t.Context(), images.Request{Pod: pod("a"), Image: "bad:1"})
			if err == nil || err.Error() != want {
				t.Errorf("error is %v, want %s", err, want)
			}
			if code := status.Code(err); code != codes.NotFound {
				t.Errorf("code is %v, want NotFound", code)
			}
		}
	})
}

func TestReasonsOfTheRuntime(t *testing.T) {
	for _, c := range []struct {
		name string
		rpc  string
		err  error
		want string
		text string
	}{
		{"registry", "PullImage", status.Error(codes.Unknown, "RegistryUnavailable: no route"), "RegistryUnavailable after 10s", "image pull failed for web:1 because the registry is unavailable: no route"},
		{"signature", "PullImage", status.Error(codes.Unknown, "SignatureValidationFailed: no key"), "SignatureValidationFailed after 10s", "image pull failed for web:1 because the signature validation failed: no key"},
		{"elsewhere in the text", "PullImage", status.Error(codes.Unknown, "not RegistryUnavailable"), "ErrImagePull after 10s", "not RegistryUnavailable"},
		{"a code that says something", "PullImage", status.Error(codes.PermissionDenied, "no"), "ErrImagePull after 10s", "PullImage web:1: PermissionDenied: no"},
		{"status", "ImageStatus", status.Error(codes.Unknown, "broken"), "ImageInspectError after 0s", `Failed to inspect image "web:1": broken`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, images.Config{}, runtimetest.Image{Name: "web:1", Pull: &runtimetest.Pull{}})
				w.server.Inject(c.rpc, runtimetest.Fault{Err: c.err})
				_, err := w.manager.Ensure(t.Context(), images.Request{Pod: pod("a"), Image: "web:1"})
				failure, ok := errors.AsType[*images.Error](err)
				if !ok || failure.Error() != c.text {
					t.Fatalf("error is %v, want %s", err, c.text)
				}
				w.want(w.ensure(pod("b"), "web:1", ""), c.want)
				if c.rpc == "ImageStatus" {
					w.wantPulls(0)
				}
			})
		})
	}
}

func TestStatusOfTheImageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "web:1", Pull: &runtimetest.Pull{}})
		w.server.Inject("ImageStatus", runtimetest.Fault{Times: 1, Err: status.Error(codes.Unknown, "broken")})
		w.want(w.ensure(pod("a"), "web:1", ""), "ImageInspectError after 0s")
		w.wantEvents(`a Warning InspectFailed: Failed to inspect image "web:1": broken`, `a Warning Failed: Error: ImageInspectError`)
		// Who has gone is told nothing.
		w.server.Inject("ImageStatus", runtimetest.Fault{Times: 1, Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		w.want(w.ensureCtx(ctx, pod("a"), "web:1", ""), "context deadline exceeded")
		w.wantEvents()
		// Some runtimes say so when they do not have it.
		w.server.Inject("ImageStatus", runtimetest.Fault{Times: 1, Err: status.Error(codes.NotFound, "no such image")})
		w.want(w.ensure(pod("a"), "web:1", ""), "ok")
		if got := w.asked[len(w.asked)-1].Policy; got != corev1.PullIfNotPresent {
			t.Errorf("policy is told as %q, want the default", got)
		}
	})
}

// A runtime that has pulled an image and then does not know it is not trusted.
func TestPulledImageIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "web:1", Pull: &runtimetest.Pull{}})
		w.server.Inject("ImageStatus", runtimetest.Fault{Edit: func(m proto.Message) { proto.Reset(m) }})
		w.want(w.ensure(pod("a"), "web:1", ""), "ImageInspectError after 0s")
		w.wantPulls(1)
	})
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := runtimetest.Image{Name: "web:1", Pull: &runtimetest.Pull{Err: errors.New("boom")}}
		w := newWorld(t, images.Config{}, bad)
		for _, wait := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 300 * time.Second, 300 * time.Second} {
			w.want(w.ensure(pod("a"), "web:1", ""), "ErrImagePull after "+wait.String())
			elapse(wait - time.Second)
			w.want(w.ensure(pod("a"), "web:1", ""), "ImagePullBackOff after 1s")
			elapse(time.Second)
		}
		w.wantPulls(7)
		// Another image and another pod have their own.
		w.want(w.ensure(pod("b"), "web:1", ""), "ErrImagePull after 10s")
		w.want(w.ensure(pod("a"), "other:1", ""), "ErrImagePull after 10s")
		// A success makes the next failure the first.
		bad.Pull = &runtimetest.Pull{}
		w.server.SetImage(bad)
		w.want(w.ensure(pod("a"), "web:1", corev1.PullAlways), "ok")
		w.server.Inject("PullImage", runtimetest.Fault{Err: errors.New("boom")})
		w.want(w.ensure(pod("a"), "web:1", corev1.PullAlways), "ErrImagePull after 10s")
		elapse(10 * time.Second)
		w.want(w.ensure(pod("a"), "web:1", corev1.PullAlways), "ErrImagePull after 20s")
		// So does a long time, and forgetting the pod.
		elapse(10*time.Minute + time.Second)
		w.want(w.ensure(pod("a"), "web:1", corev1.PullAlways), "ErrImagePull after 10s")
		w.manager.Forget("uid-a")
		w.want(w.ensure(pod("a"), "web:1", corev1.PullAlways), "ErrImagePull after 10s")
		// An image that is present needs no pull, back-off or not.
		w.want(w.ensure(pod("a"), "web:1", corev1.PullIfNotPresent), "ok")
	})
}

func TestQPS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{QPS: 2, Burst: 3})
		for i, want := range []string{"ok", "ok", "ok", "ErrImagePull after 10s"} {
			w.want(w.ensure(pod(string(rune('a'+i))), "web:1", corev1.PullAlways), want)
		}
		_, err := w.manager.Ensure(t.Context(), images.Request{Pod: pod("e"), Image: "web"})
		if err == nil || err.Error() != "pull QPS exceeded" {
			t.Errorf("error is %v, want pull QPS exceeded", err)
		}
		elapse(time.Second)
		for i, want := range []string{"ok", "ok", "ErrImagePull after 10s"} {
			w.want(w.ensure(pod(string(rune('f'+i))), "web:1", corev1.PullAlways), want)
		}
		w.wantPulls(5)
	})
}

func TestBurstOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{QPS: 0.5, Burst: 1})
		for i, want := range []string{"ok", "ErrImagePull after 10s"} {
			w.want(w.ensure(pod(string(rune('a'+i))), "web:1", corev1.PullAlways), want)
		}
		elapse(2 * time.Second)
		w.want(w.ensure(pod("c"), "web:1", corev1.PullAlways), "ok")
	})
}

func TestCancelledRequestIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, slow("web:1", time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		w.want(w.ensureCtx(ctx, pod("a"), "web:1", ""), "context deadline exceeded")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %v, want the minute of its context", took)
		}
		w.wantEvents(`a Normal Pulling: Pulling image "web:1"`)
		synctest.Wait()
		calls := w.server.Calls("PullImage")
		if len(calls) != 1 || status.Code(calls[0].Err) != codes.Canceled {
			t.Errorf("calls are %v, want one that was cancelled", calls)
		}
		if pulls := w.manager.Pulls(); len(pulls) != 0 {
			t.Errorf("pulls under way are %+v, want none", pulls)
		}
		w.server.SetImage(slow("web:1", time.Second))
		w.want(w.ensure(pod("a"), "web:1", ""), "ok")
	})
}

func TestHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{}, runtimetest.Image{Name: "web:1", Size: 7, Pull: &runtimetest.Pull{Takes: time.Minute}})
		began := time.Now()
		w.want(w.ensure(pod("a"), "web:1", corev1.PullIfNotPresent), "ok")
		w.want(w.ensure(pod("a"), "web:1", corev1.PullIfNotPresent), "ok")
		w.want(w.ensure(pod("a"), "web:1", corev1.PullAlways), "ok")
		w.want(w.ensure(pod("a"), "none:1", corev1.PullNever), "ErrImageNeverPull after 0s")
		wantAsked := []images.Asked{
			{Policy: corev1.PullIfNotPresent, Looked: true, MustPull: true},
			{Policy: corev1.PullIfNotPresent, Looked: true, Present: true},
			{Policy: corev1.PullAlways, MustPull: true},
			{Policy: corev1.PullNever, Looked: true, MustPull: true},
		}
		if len(w.asked) != len(wantAsked) {
			t.Fatalf("%d requests were told, want %d", len(w.asked), len(wantAsked))
		}
		for i, got := range w.asked {
			if got != wantAsked[i] {
				t.Errorf("request %d is told as %+v, want %+v", i, got, wantAsked[i])
			}
		}
		want := images.Pull{Image: "web:1", Phase: images.Succeeded, Asked: began, Began: began, Ended: began.Add(time.Minute), Size: 7}
		if got := w.pulls[2]; got != want {
			t.Errorf("pull ends as %+v, want %+v", got, want)
		}
		for i, phase := range []string{"queued", "pulling", "succeeded", "queued", "pulling", "succeeded"} {
			if got := w.pulls[i].Phase.String(); got != phase {
				t.Errorf("phase %d is %s, want %s", i, got, phase)
			}
		}
		if given := w.manager.Given(); len(given) != 1 {
			t.Errorf("images given are %v, want one", given)
		}
		elapse(10*time.Minute + time.Second)
		if given := w.manager.Given(); len(given) != 0 {
			t.Errorf("images given are %v ten minutes later, want none", given)
		}
	})
}

func TestVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, images.Config{})
		image, err := w.manager.ForVolume(t.Context(), pod("a"), &corev1.ImageVolumeSource{Reference: "data:1"}, &runtimeapi.PodSandboxConfig{})
		if err != nil || image.GetRepoTags()[0] != "docker.io/library/data:1" {
			t.Errorf("image is %v, %v", image, err)
		}
	})
}

func TestBadConfigs(t *testing.T) {
	nan := 0.0
	nan /= nan
	for _, c := range []struct {
		name string
		cfg  images.Config
	}{
		{"parallel", images.Config{MaxParallel: -1}},
		{"registry", images.Config{MaxPerRegistry: -1}},
		{"QPS", images.Config{QPS: -1}},
		{"no number", images.Config{QPS: nan, Burst: 1}},
		{"burst", images.Config{QPS: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, images.Config{})
			if _, err := images.New(w.server.Client(t), c.cfg); err == nil {
				t.Errorf("%+v is accepted", c.cfg)
			}
		})
	}
	if _, err := images.New(nil, images.Config{}); err == nil {
		t.Error("no runtime is accepted")
	}
}
