package runtimetest_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

func TestChanges(t *testing.T) {
	w := newWorld(t, runtimetest.Config{})
	ctx := t.Context()
	_, err := w.client.PullImage(ctx, &runtimeapi.ImageSpec{Image: image}, nil, nil)
	w.must(err)
	sandbox := w.run(sandboxConfig("web"))
	id := w.start(sandbox, containerConfig("app", 0))
	w.state(id)
	_, err = w.client.Snapshot(ctx)
	w.must(err)
	w.must(w.client.StopContainer(ctx, id, 0))
	w.must(w.client.RemoveContainer(ctx, id))
	w.must(w.client.RemoveContainer(ctx, id))
	w.must(w.client.StopPodSandbox(ctx, sandbox))
	w.must(w.client.RemovePodSandbox(ctx, sandbox))
	want := []string{
		"PullImage " + image,
		"RunPodSandbox default/web",
		"CreateContainer default/web/app",
		"StartContainer default/web/app",
		"StopContainer default/web/app",
		"RemoveContainer default/web/app",
		"RemoveContainer " + id,
		"StopPodSandbox default/web",
		"RemovePodSandbox default/web",
	}
	if d := cmp.Diff(want, w.server.Changes()); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	w.server.WantChanges(t, want...)

	f := &failures{TB: t}
	w.server.WantChanges(f, want[1:]...)
	if len(f.texts) != 1 || !strings.Contains(f.texts[0], "PullImage") {
		t.Errorf("with a change that nobody wants, WantChanges reported %q", f.texts)
	}
	w.server.ForgetCalls()
	w.server.WantChanges(t)
}

func TestCallsKeepTheirTimesAndErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, runtimetest.Config{})
		w.server.Inject("ListImages", runtimetest.Fault{Delay: time.Minute})
		done := make(chan error)
		go func() {
			_, err := w.client.ListImages(t.Context(), nil)
			done <- err
		}()
		synctest.Wait()
		if c := w.server.Calls("ListImages"); len(c) != 1 || c[0].Began.IsZero() || !c[0].Ended.IsZero() {
			t.Errorf("calls while one goes on are %v, want one that has not ended", c)
		}
		w.must(<-done)
		if c := w.server.Calls("ListImages"); len(c) != 1 || c[0].Ended.Sub(c[0].Began) != time.Minute || c[0].Err != nil {
			t.Errorf("calls are %v, want one of a minute", c)
		}
		if w.client.StartContainer(t.Context(), "nobody") == nil {
			t.Fatal("a container started that does not exist")
		}
		if c := w.server.Calls("StartContainer"); len(c) != 1 || c[0].Err == nil || c[0].String() != "StartContainer nobody" {
			t.Errorf("calls are %v, want one that failed", c)
		}
		if all := w.server.Calls(); len(all) != 3 || all[0].RPC != "Version" {
			t.Errorf("all calls are %v, want Version first and three in all", all)
		}
	})
}
