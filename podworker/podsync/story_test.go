package podsync_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
	"github.com/nodekit-go/nodekit/test/story"
)

var update = flag.Bool("update", false, "rewrite the stories in testdata")

// TestStories tells the stories in testdata: each is the life of one pod, with what has
// to hold in it. Rewrite what happened with -update, and commit the changes only if you
// understand what caused them. What is expected is never rewritten.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".txtar"), func(t *testing.T) {
			t.Parallel()
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := story.Parse(raw)
			if err != nil {
				t.Fatal(err)
			}
			var rec *story.Recorder
			synctest.Test(t, func(t *testing.T) { rec = tell(t, s) })
			for _, broken := range story.Check(s.Expect, rec.Events(), story.Slack{}) {
				t.Errorf("%s", broken)
			}
			if *update {
				if err := os.WriteFile(file, s.Format(rec.String()), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(s.Want, rec.String()); diff != "" {
				t.Errorf("story (-want +got):\n%s", diff)
			}
		})
	}
}

// teller is an agent that lives a story.
type teller struct {
	*machine
	story    *story.Story
	recorder *story.Recorder

	// mu guards the fields below.
	mu    sync.Mutex
	agent *agent
	pod   *corev1.Pod
}

// tell lives through a story.
func tell(t *testing.T, s *story.Story) *story.Recorder {
	t.Helper()
	rec := story.NewRecorder()
	m := &machine{Server: runtimetest.Start(t, s.Runtime(rec)), t: t, dir: t.TempDir()}
	story.Slow(m.Server)
	tl := &teller{machine: m, story: s, recorder: rec, pod: s.Pod}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	conn := tl.watch(ctx, &watching)
	defer conn.Close()
	rec.OnStart(tl.started)
	synctest.Wait() // the watch has begun
	tl.start()
	began := time.Now()
	for _, step := range s.Steps {
		pass(time.Until(began.Add(step.At)))
		tl.do(step)
	}
	pass(time.Until(began.Add(s.Until)))
	rec.Stops(m.Calls("StopContainer"))
	tl.current().stop()
	return rec
}

// watch listens to the runtime and wakes the agent of the hour.
func (tl *teller) watch(ctx context.Context, watching *sync.WaitGroup) *grpc.ClientConn {
	conn, err := grpc.NewClient("passthrough:///runtime",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return tl.DialContext(ctx, "") }))
	if err != nil {
		tl.t.Fatal(err)
	}
	watching.Go(func() {
		if err := tl.recorder.Watch(ctx, tl.Server, runtimeapi.NewRuntimeServiceClient(conn), tl.wake); err != nil {
			tl.t.Error(err)
		}
	})
	return conn
}

func (tl *teller) current() *agent {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	return tl.agent
}

func (tl *teller) wake() {
	if a := tl.current(); a != nil {
		a.pool.Wake(tl.story.Pod.UID)
	}
}

// start starts an agent, which hears of the pod.
func (tl *teller) start() {
	a := tl.machine.agent(tl.t, func(c *podsync.Config) {
		c.Prober = tl
		inner := c.OnStatus
		c.OnStatus = func(pod *corev1.Pod, st corev1.PodStatus) {
			inner(pod, st)
			tl.recorder.Happens("pod", 0, statusText(&st))
			tl.mu.Lock()
			defer tl.mu.Unlock()
			tl.pod = tl.pod.DeepCopy() // as the API server has it for the next agent
			tl.pod.Status = st
		}
	})
	tl.mu.Lock()
	tl.agent = a
	tl.mu.Unlock()
	tl.tell(tl.latest())
}

// latest returns the pod as its source has it.
func (tl *teller) latest() *corev1.Pod {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	return tl.pod.DeepCopy()
}

// tell hands a version of the pod to the agent.
func (tl *teller) tell(pod *corev1.Pod) {
	tl.mu.Lock()
	tl.pod = pod
	tl.mu.Unlock()
	tl.current().add(pod)
}

// statusText is a status in a few words.
func statusText(st *corev1.PodStatus) string {
	text := "is " + string(st.Phase)
	for _, c := range st.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			text += " and ready"
		}
	}
	if st.Reason != "" {
		text += " for " + st.Reason
	}
	for _, list := range [][]corev1.ContainerStatus{st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses} {
		for i := range list {
			if w := list[i].State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
				text += fmt.Sprintf(", %s in %s", list[i].Name, w.Reason)
			}
		}
	}
	return text
}

// do lets something happen.
func (tl *teller) do(step story.Step) {
	tl.recorder.Happens(story.Outside, 0, step.String())
	pod := tl.latest()
	switch step.String() {
	case "restart agent":
		tl.current().stop()
		tl.start()
		return
	case "reboot":
		tl.current().stop()
		tl.killSandboxes()
		tl.start()
		return
	case "kill sandbox":
		tl.killSandboxes()
		return
	case "remove":
		tl.current().remove(pod)
		return
	}
	switch step.Verb {
	case "delete":
		tl.delete(pod, step.Args)
	case "image":
		setImage(pod, step.Args[0], step.Args[1])
	case "deadline":
		seconds := int64(tl.duration(step.Args[0]).Seconds())
		pod.Spec.ActiveDeadlineSeconds = &seconds
	case "debug":
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: step.Args[0], Image: story.Image},
		})
	case "lose":
		tl.lose(step.Args[0])
		return
	case "end":
		tl.end(step.Args)
		return
	default:
		tl.t.Fatalf("step %q is not known", step)
	}
	tl.tell(pod)
}

func (tl *teller) duration(s string) time.Duration {
	d, err := time.ParseDuration(s)
	if err != nil {
		tl.t.Fatal(err)
	}
	return d
}

// delete marks the pod as the API server does.
func (tl *teller) delete(pod *corev1.Pod, args []string) {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	if len(args) > 0 {
		seconds = int64(tl.duration(args[0]).Seconds())
	}
	at := metav1.NewTime(time.Now().Add(time.Duration(seconds) * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
}

func setImage(pod *corev1.Pod, name, image string) {
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			if list[i].Name == name {
				list[i].Image = image
			}
		}
	}
}

func (tl *teller) killSandboxes() {
	c := tl.Client(tl.t)
	list, err := c.ListPodSandbox(tl.t.Context(), nil)
	if err != nil {
		tl.t.Fatal(err)
	}
	for _, sb := range list {
		if err := c.StopPodSandbox(tl.t.Context(), sb.GetId()); err != nil {
			tl.t.Fatal(err)
		}
	}
}

// lose removes the dead runs of a container behind the back of the agent.
func (tl *teller) lose(name string) {
	c := tl.Client(tl.t)
	list, err := c.ListContainers(tl.t.Context(), &runtimeapi.ContainerFilter{LabelSelector: map[string]string{podspec.LabelContainerName: name}})
	if err != nil {
		tl.t.Fatal(err)
	}
	for _, run := range list {
		if err := c.RemoveContainer(tl.t.Context(), run.GetId()); err != nil {
			tl.t.Fatal(err)
		}
	}
}

func (tl *teller) end(args []string) {
	code, err := strconv.ParseInt(args[1], 10, 32)
	if err == nil {
		err = tl.Exit("default/"+tl.story.Pod.Name, args[0], runtimetest.Exit{Code: int32(code)})
	}
	if err != nil {
		tl.t.Fatal(err)
	}
}

// ProbeResult has what the probes of the story find.
func (tl *teller) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	name, number, started := tl.recorder.RunOf(id)
	f, ok := tl.finding(name, number, kind.String())
	switch {
	case !ok || f.Never || time.Since(started) < f.After:
		return podstatus.Undecided
	case f.Success:
		return podstatus.Success
	}
	return podstatus.Failure
}

func (tl *teller) finding(name string, number int, kind string) (story.Finding, bool) {
	for _, p := range tl.story.Probes {
		if p.Container == name && p.Kind == kind {
			return p.Runs[min(number, len(p.Runs))-1], true
		}
	}
	return story.Finding{}, false
}

// started wakes the agent when a probe will have found something.
func (tl *teller) started(id, name string, number int) {
	for _, kind := range []string{"startup", "liveness", "readiness"} {
		f, ok := tl.finding(name, number, kind)
		if !ok || f.Never {
			continue
		}
		time.AfterFunc(f.After, func() {
			result := "failure"
			if f.Success {
				result = "success"
			}
			tl.recorder.Of(id, "probe "+kind+" "+result)
			tl.wake()
		})
	}
}
