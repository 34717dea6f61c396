package support_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/images"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// lived is what a runtime is asked, what servers of hooks are asked and what users are
// told while a pod starts, crashes, fails its probes and is stopped, with the times.
func lived(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	var d diary
	// A test of its own, so that the bubble is one.
	t.Run("life", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { d.live(t, pod) })
	})
	return d.text()
}

// diary notes what happens in a life.
type diary struct {
	began time.Time
	mu    sync.Mutex // guards lines
	lines []string
}

func (d *diary) note(at time.Time, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf("%8s ", at.Sub(d.began))+fmt.Sprintf(format, args...))
}

// addresses and ids differ from run to run.
var foreign = regexp.MustCompile(`10\.88\.\d+\.\d+|[0-9a-f]{32,}`)

// text is the diary in order of time; what happens at once has no order.
func (d *diary) text() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	slices.Sort(d.lines)
	return foreign.ReplaceAllString(strings.Join(d.lines, "\n"), "#")
}

// lifetime is how long a pod lives here if nothing ends it before.
const lifetime = 80 * time.Second

// live runs the pod on a runtime that runs nothing, and ends it. It syncs as often as
// the clock says, so that two lives of a pod are alike.
func (d *diary) live(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	d.began = time.Now()
	server := runtimetest.Start(t, runtimetest.Config{Images: pictures(pod), Script: script})
	client := server.Client(t)
	syncer, err := podsync.New(client, d.config(t, client))
	if err != nil {
		t.Fatal(err)
	}
	for time.Since(d.began) < lifetime {
		out, err := syncer.Sync(t.Context(), pod)
		if err != nil {
			d.note(time.Now(), "%v", err)
		}
		if out.Terminal {
			break
		}
		time.Sleep(5 * time.Second)
	}
	if err := syncer.SyncTerminating(t.Context(), pod, podworker.Termination{Grace: grace(pod)}); err != nil {
		t.Error(err)
	}
	for _, call := range server.Calls() {
		d.call(call)
	}
}

// grace is what an ordinary end leaves the pod, see [podworker.Termination].
func grace(pod *corev1.Pod) time.Duration {
	if s := pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// call notes a call that changes something.
func (d *diary) call(c runtimetest.Call) {
	detail := ""
	switch r := c.Request.(type) {
	case *runtimeapi.RunPodSandboxRequest, *runtimeapi.CreateContainerRequest, *runtimeapi.StartContainerRequest:
	case *runtimeapi.StopContainerRequest:
		detail = fmt.Sprint(r.GetTimeout())
	case *runtimeapi.ExecSyncRequest:
		detail = fmt.Sprint(r.GetCmd())
	case *runtimeapi.PullImageRequest:
		detail = fmt.Sprint(r.GetAuth().GetUsername())
	default:
		return
	}
	d.note(c.Began, "%s %s", c, detail)
}

// script has containers called crash and flaky fail, setup end, and others run until they
// are stopped. None ends at a time at which the pod is synced: it would not be known which
// comes first.
func script(i runtimetest.Instance) *runtimetest.Life {
	log := []runtimetest.LogLine{{Text: "last words"}}
	switch i.Config.GetMetadata().GetName() {
	case "crash", "flaky":
		return &runtimetest.Life{Exit: &runtimetest.Exit{After: 4 * time.Second, Code: 3}, Log: log}
	case "setup":
		return &runtimetest.Life{Exit: &runtimetest.Exit{After: time.Second}}
	case "debugger":
		return &runtimetest.Life{Exit: &runtimetest.Exit{After: 18 * time.Second, Code: 1}, Log: log}
	}
	return nil
}

// pictures are the images of a pod: present, but can be pulled.
func pictures(pod *corev1.Pod) []runtimetest.Image {
	known := map[string]bool{"img.example/tool:1": true}
	for c := range allContainers(pod) {
		known[c.Image] = true
	}
	var out []runtimetest.Image
	for name := range known {
		out = append(out, runtimetest.Image{Name: name})
	}
	return out
}

func (d *diary) config(t *testing.T, client *runtime.Client) podsync.Config {
	t.Helper()
	dir := t.TempDir()
	pictures, err := images.New(client, images.Config{Credentials: images.Credentials{Secret: registrySecret}})
	if err != nil {
		t.Fatal(err)
	}
	n := *node
	n.Root, n.Logs, n.SELinux = dir+"/root", dir+"/logs", false
	return podsync.Config{
		Node: n, RuntimeName: "runtime", Can: abilities, Prober: lateFailure{d.began.Add(39 * time.Second)},
		OnEvent: func(_ *corev1.Pod, e podsync.Event) {
			d.note(time.Now(), "event %s %s %s", e.Container, e.Reason, e.Message)
		},
		OnStatus: func(_ *corev1.Pod, st corev1.PodStatus) {
			for _, c := range slices.Concat(st.InitContainerStatuses, st.ContainerStatuses, st.EphemeralContainerStatuses) {
				if end := c.State.Terminated; end != nil {
					d.note(time.Now(), "status %s %s", c.Name, end.Message)
				}
			}
		},
		Parts: podsync.Parts{
			Images: pictures, HTTP: d, Mounts: bindings{}, Volumes: directories{dir},
			References: func(context.Context, *corev1.Pod) podspec.References {
				r := references
				r.Files = anyFile{}
				return r
			},
		},
	}
}

// Do notes the request of a hook.
func (d *diary) Do(r *http.Request) (*http.Response, error) {
	d.note(time.Now(), "%s %s %v", r.Method, r.URL, r.Header)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// registrySecret returns the credentials that pods name.
func registrySecret(_ context.Context, namespace, name string) (*corev1.Secret, error) {
	if name != "registry" {
		return nil, errors.New("not found")
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
		Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"img.example":{"username":"reader","password":"secret"}}}`)},
	}, nil
}

// lateFailure fails liveness probes from a time on for three seconds.
type lateFailure struct{ from time.Time }

func (l lateFailure) ProbeResult(_ string, kind podstatus.Probe) podstatus.Result {
	if since := time.Since(l.from); kind == podstatus.Liveness && since >= 0 && since < 3*time.Second {
		return podstatus.Failure
	}
	return podstatus.Success
}

// directories are the volumes of pods: places that nobody looks into.
type directories struct{ dir string }

func (v directories) SetUp(_ context.Context, pod *corev1.Pod) (map[string]podspec.Volume, error) {
	out := map[string]podspec.Volume{}
	for i := range pod.Spec.Volumes {
		out[pod.Spec.Volumes[i].Name] = podspec.Volume{Path: v.dir + "/" + pod.Spec.Volumes[i].Name}
	}
	return out, nil
}

func (directories) TearDown(context.Context, types.UID) error { return nil }

// bindings binds nothing.
type bindings struct{}

func (bindings) Bind(context.Context, string, string, string, fs.FileMode) error { return nil }

// anyFile has the variable TOKEN in every file.
type anyFile struct{}

func (anyFile) ReadFile(string, string) ([]byte, error) { return []byte("TOKEN='abc'\n"), nil }
