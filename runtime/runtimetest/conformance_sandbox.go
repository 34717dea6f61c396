package runtimetest

import (
	"errors"
	"maps"
	"net/netip"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

func checkAnswersAboutItself(r *conformanceRun) {
	v, err := r.client.Version(r.Context(), "0.1.0")
	r.must(err)
	if v.GetRuntimeApiVersion() != "v1" {
		r.Errorf("runtime API version is %q, want v1", v.GetRuntimeApiVersion())
	}
	st, err := r.client.Status(r.Context(), false)
	r.must(err)
	for _, c := range st.GetStatus().GetConditions() {
		// Runtimes add conditions of their own: containerd 2 has one for what is deprecated.
		required := c.GetType() == runtimeapi.RuntimeReady || c.GetType() == runtimeapi.NetworkReady
		if required && !c.GetStatus() {
			r.Errorf("condition %s is false: %s: %s", c.GetType(), c.GetReason(), c.GetMessage())
		}
	}
	// Runtimes before this call must be told apart from those that fail.
	if _, err := r.client.RuntimeConfig(r.Context()); err != nil {
		r.wantIs("RuntimeConfig", err, runtime.ErrUnimplemented)
	}
	fs, err := r.client.ImageFsInfo(r.Context())
	r.must(err)
	if len(fs.GetImageFilesystems()) == 0 {
		r.Error("ImageFsInfo names no file system")
	}
}

func checkSandboxLife(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	st := p.status()
	if st.GetState() != runtimeapi.PodSandboxState_SANDBOX_READY {
		r.Errorf("state after the start is %v, want ready", st.GetState())
	}
	if _, err := netip.ParseAddr(st.GetNetwork().GetIp()); err != nil {
		r.Errorf("address of the sandbox: %v", err)
	}
	for range 2 {
		r.must(r.client.StopPodSandbox(r.Context(), p.id))
		if st := p.status(); st.GetState() != runtimeapi.PodSandboxState_SANDBOX_NOTREADY {
			r.Errorf("state after the stop is %v, want not ready", st.GetState())
		}
	}
	if ip := p.status().GetNetwork().GetIp(); ip != "" {
		r.Errorf("address after the stop is %s, want none", ip)
	}
	for range 2 {
		r.must(r.client.RemovePodSandbox(r.Context(), p.id))
		_, err := r.client.PodSandboxStatus(r.Context(), p.id, false)
		r.wantIs("status after the removal", err, runtime.ErrNotFound)
	}
}

func (p *pod) status() *runtimeapi.PodSandboxStatus {
	p.r.Helper()
	resp, err := p.r.client.PodSandboxStatus(p.r.Context(), p.id, false)
	p.r.must(err)
	return resp.GetStatus()
}

func checkSandboxNameReserved(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	again := func() (string, error) { return r.client.RunPodSandbox(r.Context(), p.config, "") }
	id, err := again()
	r.wantReserved("same name", id, p.id, err)
	r.must(r.client.StopPodSandbox(r.Context(), p.id))
	id, err = again()
	r.wantReserved("same name after the stop", id, p.id, err)

	next := clone(p.config)
	next.Metadata.Attempt++
	r.runPod(next)

	r.must(r.client.RemovePodSandbox(r.Context(), p.id))
	r.runPod(p.config)
}

func checkSandboxTakesContainers(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	runs := p.start("runs", Life{IgnoreTerm: true})
	waits := p.create(p.containerConfig("waits", Life{}))
	r.must(r.client.StopPodSandbox(r.Context(), p.id))
	if st := r.waitExit(runs); st.GetExitCode() != exitKilled {
		r.Errorf("exit code of the killed container is %d, want %d", st.GetExitCode(), exitKilled)
	}
	if r.client.StartContainer(r.Context(), waits) == nil {
		r.Error("a container started in a stopped sandbox")
	}
	r.must(r.client.RemovePodSandbox(r.Context(), p.id))
	for _, id := range []string{runs, waits} {
		_, err := r.client.ContainerStatus(r.Context(), id, false)
		r.wantIs("container of the removed sandbox", err, runtime.ErrNotFound)
	}
}

func checkSandboxIdentity(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	listed, err := r.client.ListPodSandbox(r.Context(), &runtimeapi.PodSandboxFilter{Id: p.id})
	r.must(err)
	if len(listed) != 1 {
		r.Fatalf("list by id has %d sandboxes, want 1", len(listed))
	}
	for where, got := range map[string]interface {
		GetMetadata() *runtimeapi.PodSandboxMetadata
		GetLabels() map[string]string
		GetAnnotations() map[string]string
	}{"list": listed[0], "status": p.status()} {
		if m, want := got.GetMetadata(), p.config.GetMetadata(); sandboxName(m) != sandboxName(want) {
			r.Errorf("%s: metadata is %v, want %v", where, m, want)
		}
		if !maps.Equal(got.GetLabels(), p.config.GetLabels()) {
			r.Errorf("%s: labels are %v, want %v", where, got.GetLabels(), p.config.GetLabels())
		}
		if !maps.Equal(got.GetAnnotations(), p.config.GetAnnotations()) {
			r.Errorf("%s: annotations are %v, want %v", where, got.GetAnnotations(), p.config.GetAnnotations())
		}
	}
}

func checkUnknownIDs(r *conformanceRun) {
	ctx := r.Context()
	const id = "0000000000000000000000000000000000000000000000000000000000000000"
	_, err := r.client.PodSandboxStatus(ctx, id, false)
	r.wantIs("PodSandboxStatus", err, runtime.ErrNotFound)
	_, err = r.client.ContainerStatus(ctx, id, false)
	r.wantIs("ContainerStatus", err, runtime.ErrNotFound)
	r.wantIs("StartContainer", r.client.StartContainer(ctx, id), runtime.ErrNotFound)
	_, _, err = r.client.ExecSync(ctx, id, []string{"true"}, 0)
	r.wantIs("ExecSync", err, runtime.ErrNotFound)
	r.wantIs("ReopenContainerLog", r.client.ReopenContainerLog(ctx, id), runtime.ErrNotFound)

	r.must(r.client.RemovePodSandbox(ctx, id))
	r.must(r.client.RemoveContainer(ctx, id))
	// containerd 1.6 does not find what later ones call stopped.
	for what, err := range map[string]error{
		"StopPodSandbox": r.client.StopPodSandbox(ctx, id),
		"StopContainer":  r.client.StopContainer(ctx, id, 1),
	} {
		if err != nil && !errors.Is(err, runtime.ErrNotFound) {
			r.Errorf("%s: error is %v, want none or ErrNotFound", what, err)
		}
	}
}
