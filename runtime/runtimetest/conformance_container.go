package runtimetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

func checkCreateDoesNotStart(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.create(p.containerConfig("app", Life{}))
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED)
	r.must(r.client.StopContainer(r.Context(), id, 1))
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_CREATED)
	r.must(r.client.StartContainer(r.Context(), id))
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING)
	if st := r.status(id); st.GetStartedAt() < st.GetCreatedAt() {
		r.Errorf("started at %d before it was created at %d", st.GetStartedAt(), st.GetCreatedAt())
	}
}

func checkStartsOnce(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{})
	if r.client.StartContainer(r.Context(), id) == nil {
		r.Error("a running container started again")
	}
	r.must(r.client.StopContainer(r.Context(), id, 0))
	if r.client.StartContainer(r.Context(), id) == nil {
		r.Error("an exited container started again")
	}
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED)
}

func checkExit(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	for _, want := range []struct {
		name, reason string
		code         int32
	}{{"good", "Completed", 0}, {"bad", "Error", 3}} {
		st := r.waitExit(p.start(want.name, Exits(10*time.Millisecond, want.code)))
		if st.GetExitCode() != want.code || st.GetReason() != want.reason {
			r.Errorf("%s: exit code %d, reason %q, want %d, %q", want.name, st.GetExitCode(), st.GetReason(), want.code, want.reason)
		}
		// Not before its start: containerd takes the time of the start when the call to
		// start the process has returned, and that of the end from the process's parent,
		// so a process that ends at once may end before it started.
		if st.GetStartedAt() == 0 || st.GetFinishedAt() < st.GetCreatedAt() {
			r.Errorf("%s: created at %d, started at %d, finished at %d", want.name, st.GetCreatedAt(), st.GetStartedAt(), st.GetFinishedAt())
		}
	}
}

func checkStartError(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	config := p.containerConfig("app", Life{StartError: "no such file or directory"})
	config.Command = []string{"/no/such/file"}
	id, err := r.client.CreateContainer(r.Context(), p.id, config, p.config)
	if err != nil {
		// CRI-O prepares the process here. Nothing is left of it, not even the name.
		config.Command = nil
		config.Args = r.target.Args("app", Life{})
		p.create(config)
		return
	}
	if r.client.StartContainer(r.Context(), id) == nil {
		r.Error("a command that does not exist was started")
	}
	st := r.waitExit(id)
	if st.GetExitCode() != exitStartError || st.GetReason() != "StartError" || st.GetMessage() == "" {
		r.Errorf("exit code %d, reason %q, message %q, want %d, StartError and a message", st.GetExitCode(), st.GetReason(), st.GetMessage(), exitStartError)
	}
}

func checkStopGently(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{Term: &Exit{}})
	began := time.Now()
	for range 2 {
		r.must(r.client.StopContainer(r.Context(), id, 60))
		r.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED)
	}
	if took := time.Since(began); took > conformancePatience {
		r.Errorf("the stop took %v of a grace period of 60 s", took)
	}
	if code := r.status(id).GetExitCode(); code != 0 {
		r.Errorf("exit code is %d, want that of the container's own end, 0", code)
	}
}

func checkStopKills(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	for name, grace := range map[string]int64{"at-once": 0, "later": 1} {
		id := p.start(name, Life{IgnoreTerm: true})
		began := time.Now()
		r.must(r.client.StopContainer(r.Context(), id, grace))
		if took := time.Since(began); took < time.Duration(grace)*time.Second {
			r.Errorf("%s: stopped after %v, before the grace period of %d s", name, took, grace)
		}
		if st := r.waitExit(id); st.GetExitCode() != exitKilled || st.GetReason() != "Error" {
			r.Errorf("%s: exit code %d, reason %q, want %d, Error", name, st.GetExitCode(), st.GetReason(), exitKilled)
		}
	}
}

func checkStopGivenUp(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{IgnoreTerm: true})
	ctx, cancel := context.WithTimeout(r.Context(), 100*time.Millisecond)
	defer cancel()
	r.wantIs("stop", r.client.StopContainer(ctx, id, 600), context.DeadlineExceeded)
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING)
	r.must(r.client.StopContainer(r.Context(), id, 0))
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_EXITED)
}

func checkRemoveRunning(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{IgnoreTerm: true})
	for range 2 {
		r.must(r.client.RemoveContainer(r.Context(), id))
		_, err := r.client.ContainerStatus(r.Context(), id, false)
		r.wantIs("status after the removal", err, runtime.ErrNotFound)
	}
}

func checkContainerNameReserved(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	config := p.containerConfig("app", Exits(10*time.Millisecond, 0))
	id := p.create(config)
	r.must(r.client.StartContainer(r.Context(), id))
	r.waitExit(id)
	again, err := r.client.CreateContainer(r.Context(), p.id, config, p.config)
	r.wantReserved("same name after the end", again, id, err)

	next := clone(config)
	next.Metadata.Attempt++
	p.create(next)

	r.must(r.client.RemoveContainer(r.Context(), id))
	p.create(config)
}

func checkCreateNeeds(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	config := p.containerConfig("app", Life{})
	create := func(sandbox string, config *runtimeapi.ContainerConfig) error {
		_, err := r.client.CreateContainer(r.Context(), sandbox, config, p.config)
		return err
	}
	r.wantIs("unknown sandbox", create("0123456789abcdef", config), runtime.ErrNotFound)

	strange := clone(config)
	strange.Image.Image = "nodekit.invalid/none:1"
	r.wantIs("absent image", create(p.id, strange), runtime.ErrNotFound)

	r.must(r.client.StopPodSandbox(r.Context(), p.id))
	if create(p.id, config) == nil {
		r.Error("a container was created in a stopped sandbox")
	}
	// None of the failures holds the name back.
	next := clone(p.config)
	next.Metadata.Attempt++
	q := r.runPod(next)
	q.create(config)
}

func checkContainerIdentity(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	config := p.containerConfig("app", Life{})
	config.Metadata.Attempt = 7
	id := p.create(config)
	listed, err := r.client.ListContainers(r.Context(), &runtimeapi.ContainerFilter{Id: id})
	r.must(err)
	if len(listed) != 1 {
		r.Fatalf("list by id has %d containers, want 1", len(listed))
	}
	if listed[0].GetPodSandboxId() != p.id {
		r.Errorf("sandbox of the container is %s, want %s", listed[0].GetPodSandboxId(), p.id)
	}
	for where, got := range map[string]interface {
		GetMetadata() *runtimeapi.ContainerMetadata
		GetLabels() map[string]string
		GetAnnotations() map[string]string
	}{"list": listed[0], "status": r.status(id)} {
		if m := got.GetMetadata(); m.GetName() != "app" || m.GetAttempt() != 7 {
			r.Errorf("%s: metadata is %v, want app, attempt 7", where, m)
		}
		if !maps.Equal(got.GetLabels(), config.GetLabels()) {
			r.Errorf("%s: labels are %v, want %v", where, got.GetLabels(), config.GetLabels())
		}
		if !maps.Equal(got.GetAnnotations(), config.GetAnnotations()) {
			r.Errorf("%s: annotations are %v, want %v", where, got.GetAnnotations(), config.GetAnnotations())
		}
	}
}

func checkFilters(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	runs, waits := p.start("runs", Life{}), p.create(p.containerConfig("waits", Life{}))
	uid := map[string]string{"io.kubernetes.pod.uid": p.config.GetMetadata().GetUid()}
	running := &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}
	for _, c := range []struct {
		name   string
		filter *runtimeapi.ContainerFilter
		want   []string
	}{
		{"id", &runtimeapi.ContainerFilter{Id: waits}, []string{waits}},
		{"sandbox", &runtimeapi.ContainerFilter{PodSandboxId: p.id}, []string{runs, waits}},
		{"label", &runtimeapi.ContainerFilter{LabelSelector: uid}, []string{runs, waits}},
		{"label and state", &runtimeapi.ContainerFilter{LabelSelector: uid, State: running}, []string{runs}},
		{"another sandbox", &runtimeapi.ContainerFilter{PodSandboxId: "0123456789abcdef"}, nil},
	} {
		listed, err := r.client.ListContainers(r.Context(), c.filter)
		r.must(err)
		var got []string
		for _, l := range listed {
			got = append(got, l.GetId())
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			r.Errorf("containers by %s are %v, want %v", c.name, got, c.want)
		}
	}
	ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	filter := &runtimeapi.PodSandboxFilter{LabelSelector: uid, State: ready}
	for _, want := range []int{1, 0} {
		listed, err := r.client.ListPodSandbox(r.Context(), filter)
		r.must(err)
		if len(listed) != want {
			r.Errorf("%d ready sandboxes of the pod, want %d", len(listed), want)
		}
		r.must(r.client.StopPodSandbox(r.Context(), p.id))
	}
}

func checkStats(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{})
	r.waitExit(p.start("ended", Exits(10*time.Millisecond, 0)))
	p.create(p.containerConfig("waits", Life{}))
	listed, err := r.client.ListContainerStats(r.Context(), &runtimeapi.ContainerStatsFilter{PodSandboxId: p.id})
	r.must(err)
	// Runtimes differ in whether they list what does not run, not in what it uses.
	var using []string
	for _, s := range listed {
		if s.GetMemory().GetWorkingSetBytes().GetValue() > 0 {
			using = append(using, s.GetAttributes().GetId())
		}
	}
	if !slices.Equal(using, []string{id}) {
		r.Errorf("containers %v use memory, want only the one that runs, %s", using, id)
	}
	one, err := r.client.ContainerStats(r.Context(), id)
	r.must(err)
	if one.GetAttributes().GetMetadata().GetName() != "app" || one.GetMemory().GetWorkingSetBytes().GetValue() == 0 {
		r.Errorf("statistics are %v, want the memory of app", one)
	}
	_, err = r.client.ContainerStats(r.Context(), "0123456789abcdef")
	r.wantIs("statistics of an unknown container", err, runtime.ErrNotFound)
	// Runtimes before this call must be told apart from those that fail.
	if _, err := r.client.PodSandboxStats(r.Context(), p.id); err != nil {
		r.wantIs("PodSandboxStats", err, runtime.ErrUnimplemented)
	}
}

func checkUpdateResources(r *conformanceRun) {
	resources := &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuShares: 512}}
	err := r.client.UpdateContainerResources(r.Context(), "0123456789abcdef", resources)
	r.wantIs("unknown container", err, runtime.ErrNotFound)
	p := r.runPod(r.podConfig())
	r.must(r.client.UpdateContainerResources(r.Context(), p.start("app", Life{}), resources))
}

func checkNoQueue(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{IgnoreTerm: true})
	slow := make(chan error, 1)
	go func() { slow <- r.client.StopContainer(r.Context(), id, 600) }()
	for range 20 {
		if r.status(id).GetState() != runtimeapi.ContainerState_CONTAINER_RUNNING {
			r.Error("the container ended before its grace period")
		}
	}
	select {
	case err := <-slow:
		r.Errorf("the slow call ended early: %v", err)
	default:
	}
	// Being killed by somebody else ends the wait too.
	r.must(r.client.RemoveContainer(r.Context(), id))
	if err := <-slow; err != nil && !errors.Is(err, runtime.ErrNotFound) {
		r.Errorf("the slow call: %v", err)
	}
}
