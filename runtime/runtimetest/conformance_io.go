package runtimetest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime"
)

// logFormat is a line of a CRI log.
const logFormat = `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d) (stdout|stderr) [FP] .+$`

func checkLog(r *conformanceRun) {
	config := r.podConfig()
	p := r.runPod(config)
	id := p.start("app", Life{})
	path := filepath.Join(config.GetLogDirectory(), "app.log")
	if got := r.status(id).GetLogPath(); got != path {
		r.Errorf("log path is %s, want %s", got, path)
	}
	if line := r.firstLine(path); !regexp.MustCompile(logFormat).MatchString(line) {
		r.Errorf("log begins with %q, want the form %s", line, logFormat)
	}

	r.must(os.Rename(path, path+".1"))
	r.must(r.client.ReopenContainerLog(r.Context(), id))
	if _, err := os.Stat(path); err != nil {
		r.Errorf("log after reopening: %v", err)
	}
	r.must(r.client.StopContainer(r.Context(), id, 0))
	if r.client.ReopenContainerLog(r.Context(), id) == nil {
		r.Error("the log of an exited container was reopened")
	}

	// The directory is made when it is not there.
	deep := p.containerConfig("deep", Life{})
	deep.LogPath = "a/b/0.log"
	r.must(r.client.StartContainer(r.Context(), p.create(deep)))
	_, err := os.Stat(filepath.Join(config.GetLogDirectory(), deep.GetLogPath()))
	r.must(err)
}

// firstLine waits for the first line of a file.
func (r *conformanceRun) firstLine(path string) string {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), conformancePatience)
	defer cancel()
	for {
		data, err := os.ReadFile(path)
		r.must(err)
		if line, _, found := strings.Cut(string(data), "\n"); found {
			return line
		}
		if sleep(ctx, conformancePoll) != nil {
			r.Fatalf("no line in %s after %v", path, conformancePatience)
		}
	}
}

func checkExec(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{})
	run := func(code int32) error {
		_, _, err := r.client.ExecSync(r.Context(), id, r.target.Exec(ExecResult{After: time.Millisecond, Code: code}), time.Minute)
		return err
	}
	r.must(run(0))
	exit, ok := errors.AsType[*runtime.ExitError](run(3))
	if !ok || exit.ExitStatus() != 3 {
		r.Errorf("error of a command with exit code 3 is %v, want an ExitError with 3", exit)
	}
	_, _, err := r.client.ExecSync(r.Context(), id, []string{"/no/such/file"}, time.Minute)
	if errors.Is(err, runtime.ErrNotFound) {
		r.Errorf("a command that does not exist is ErrNotFound (%v), as if the container did not", err)
	}
	r.must(r.client.StopContainer(r.Context(), id, 0))
	if err := run(0); err == nil {
		r.Error("a command ran in an exited container")
	}
}

func checkExecTimeout(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{})
	began := time.Now()
	// The timeout is rounded up to a second.
	_, _, err := r.client.ExecSync(r.Context(), id, r.target.Exec(ExecResult{After: time.Hour}), 100*time.Millisecond)
	r.wantIs("command that takes an hour", err, context.DeadlineExceeded)
	if took := time.Since(began); took < time.Second || took > conformancePatience {
		r.Errorf("the command was given up after %v, want a second", took)
	}
	r.wantState(id, runtimeapi.ContainerState_CONTAINER_RUNNING)
}

func checkImages(r *conformanceRun) {
	ctx := r.Context()
	none := &runtimeapi.ImageSpec{Image: "nodekit.invalid/none:1"}
	resp, err := r.client.ImageStatus(ctx, none, false)
	r.must(err)
	if resp.GetImage() != nil {
		r.Errorf("status of an unknown image is %v, want nil", resp.GetImage())
	}
	r.must(r.client.RemoveImage(ctx, none))
	if _, err := r.client.PullImage(ctx, &runtimeapi.ImageSpec{Image: "localhost:1/none:1"}, nil, nil); err == nil {
		r.Error("an image was pulled that nobody has")
	}

	resp, err = r.client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: r.target.Image}, false)
	r.must(err)
	image := resp.GetImage()
	if !slices.Contains(image.GetRepoTags(), fullName(r.target.Image)) {
		r.Errorf("status of %s has the tags %v", r.target.Image, image.GetRepoTags())
	}
	byID, err := r.client.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: image.GetId()}, false)
	r.must(err)
	if byID.GetImage().GetId() != image.GetId() {
		r.Errorf("image by id is %v, want %v", byID.GetImage(), image)
	}
	all, err := r.client.ListImages(ctx, nil)
	r.must(err)
	if !slices.ContainsFunc(all, func(i *runtimeapi.Image) bool { return i.GetId() == image.GetId() }) {
		r.Errorf("%s is not among the %d images", r.target.Image, len(all))
	}
}

func checkSnapshots(r *conformanceRun) {
	config := r.podConfig()
	uid := types.UID(config.GetMetadata().GetUid())
	before := r.snapshot()
	if before.Pods[uid] != nil {
		r.Fatalf("pod %s is there before it was made", uid)
	}
	p := r.runPod(config)
	last := before
	step := func(want ...runtime.ChangeKind) {
		r.Helper()
		now := r.snapshot()
		var got []runtime.ChangeKind
		for _, pc := range runtime.Diff(last, now) {
			if pc.UID != uid {
				continue
			}
			for _, c := range pc.Changes {
				got = append(got, c.Kind)
			}
		}
		if !slices.Equal(got, want) {
			r.Errorf("changes are %v, want %v", got, want)
		}
		last = now
	}
	step(runtime.SandboxReady)
	id := p.create(p.containerConfig("app", Life{}))
	step(runtime.ContainerCreated)
	r.must(r.client.StartContainer(r.Context(), id))
	step(runtime.ContainerStarted)
	step()
	r.must(r.client.StopContainer(r.Context(), id, 0))
	step(runtime.ContainerDied)
	r.must(r.client.StopPodSandbox(r.Context(), p.id))
	step(runtime.SandboxNotReady)
	r.must(r.client.RemovePodSandbox(r.Context(), p.id))
	step(runtime.SandboxRemoved, runtime.ContainerRemoved)
}

func (r *conformanceRun) snapshot() *runtime.Snapshot {
	r.Helper()
	s, err := r.client.Snapshot(r.Context())
	r.must(err)
	return s
}

func checkEvents(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	ctx, cancel := context.WithTimeout(r.Context(), conformancePatience)
	defer cancel()
	told := make(chan error, 1)
	go func() { told <- waitStarted(ctx, r.client, types.UID(p.config.GetMetadata().GetUid())) }()
	// When the stream is there cannot be seen, so there is more than one start to see.
	for i := 0; ; i++ {
		r.must(r.client.RemoveContainer(r.Context(), p.start(fmt.Sprintf("app-%d", i), Life{})))
		select {
		case err := <-told:
			if err != nil {
				r.wantIs("Events", err, runtime.ErrUnimplemented)
			}
			return
		default:
		}
	}
}

func checkWatch(r *conformanceRun) {
	ctx, cancel := context.WithTimeout(r.Context(), conformancePatience)
	defer cancel()
	for e, err := range r.client.Watch(ctx) {
		if err != nil {
			r.wantIs("Watch", err, runtime.ErrUnimplemented)
		} else if e.Type != runtime.EventsLost {
			r.Errorf("first event is %v, want the notice that earlier ones are not known", e.Type)
		}
		return
	}
	r.Error("the watch ended without an event or an error")
}

func checkStreamURLs(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{})
	exec, err := r.client.Exec(r.Context(), &runtimeapi.ExecRequest{ContainerId: id, Cmd: []string{"true"}, Stdout: true})
	r.wantURL("Exec", exec.GetUrl(), err)
	attach, err := r.client.Attach(r.Context(), &runtimeapi.AttachRequest{ContainerId: id, Stdout: true})
	r.wantURL("Attach", attach.GetUrl(), err)
	forward, err := r.client.PortForward(r.Context(), &runtimeapi.PortForwardRequest{PodSandboxId: p.id, Port: []int32{80}})
	r.wantURL("PortForward", forward.GetUrl(), err)
}

func (r *conformanceRun) wantURL(what, got string, err error) {
	r.Helper()
	if err != nil {
		r.wantIs(what, err, runtime.ErrUnimplemented)
		return
	}
	if u, err := url.Parse(got); err != nil || u.Host == "" {
		r.Errorf("%s gives %q, want the URL of a server", what, got)
	}
}

// checkLists finds one pod in the list of all and in the list of its own, however the
// runtime sends them.
func checkLists(r *conformanceRun) {
	p := r.runPod(r.podConfig())
	id := p.start("app", Life{})
	for name, filter := range map[string]*runtimeapi.ContainerFilter{"all": nil, "one": {Id: id}} {
		listed, err := r.client.ListContainers(r.Context(), filter)
		r.must(err)
		if n := count(listed, id); n != 1 {
			r.Errorf("container is %d times in the list of %s, want once", n, name)
		}
	}
	for name, filter := range map[string]*runtimeapi.PodSandboxFilter{"all": nil, "one": {Id: p.id}} {
		listed, err := r.client.ListPodSandbox(r.Context(), filter)
		r.must(err)
		if n := count(listed, p.id); n != 1 {
			r.Errorf("sandbox is %d times in the list of %s, want once", n, name)
		}
	}
}

func count[T interface{ GetId() string }](list []T, id string) int {
	n := 0
	for _, item := range list {
		if item.GetId() == id {
			n++
		}
	}
	return n
}

// waitStarted reads events until one tells of a start in the pod.
func waitStarted(ctx context.Context, c *runtime.Client, pod types.UID) error {
	for e, err := range c.Events(ctx) {
		if err != nil {
			return err
		}
		if e.PodUID == pod && e.Type == runtime.EventStarted {
			return nil
		}
	}
	return errors.New("the events ended without an error")
}

func checkTooLarge(r *conformanceRun) {
	config := r.podConfig()
	config.Annotations["example.org/long"] = strings.Repeat("x", 8<<10)
	p := r.runPod(config)
	narrow := r.dial(runtime.Config{MaxMessageSize: 4 << 10})
	_, err := narrow.ListPodSandbox(r.Context(), &runtimeapi.PodSandboxFilter{Id: p.id})
	r.wantIs("list of 8 KiB over a limit of 4 KiB", err, runtime.ErrTooLarge)
	if _, err := narrow.Snapshot(r.Context()); err == nil {
		r.Error("a snapshot was made of a list that was refused")
	}
	if got := r.snapshot().Pods[types.UID(config.GetMetadata().GetUid())]; got == nil {
		r.Error("the client with the default limit does not see the pod")
	}
}

func checkClosed(r *conformanceRun) {
	c := r.dial(runtime.Config{})
	for range 2 {
		r.must(c.Close())
	}
	_, err := c.ListContainers(r.Context(), nil)
	r.wantIs("call after Close", err, runtime.ErrClosed)
}
