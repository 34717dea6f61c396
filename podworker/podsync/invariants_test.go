package podsync_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestInvariants lets pods of an API server with init containers and sidecars be made,
// deleted with shrinking and growing grace periods, and vanish, in any order, while
// containers end, sandboxes die, calls fail, and runtime and agent are killed. Whatever
// happens: a pod has one ready sandbox at most, nothing of it starts once it is to end,
// containers are made in order, no container is given more time than the shortest grace
// period, and in the end exactly what is wanted is there.
func TestInvariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		ops := rapid.SliceOfN(rapid.Custom(drawTrouble), 5, 40).Draw(rt, "ops")
		var broken []string
		synctest.Test(t, func(t *testing.T) {
			h := newHistory(t)
			for _, op := range ops {
				h.do(op)
				<-time.After(op.wait)
				h.checkSandboxes()
			}
			h.settle()
			broken = h.broken
		})
		for _, b := range broken {
			rt.Error(b)
		}
	})
}

// trouble is one thing that happens, and the time until the next.
type trouble struct {
	what string
	pod  int
	arg  int
	rpc  string
	wait time.Duration
}

func drawTrouble(t *rapid.T) trouble {
	return trouble{
		what: rapid.SampledFrom([]string{"create", "create", "image", "delete", "vanish", "exit", "fault", "kill sandbox", "kill agent", "runtime down"}).Draw(t, "what"),
		pod:  rapid.IntRange(0, 2).Draw(t, "pod"),
		arg:  rapid.IntRange(0, 40).Draw(t, "arg"),
		rpc: rapid.SampledFrom([]string{
			"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ListContainers", "ContainerStatus",
		}).Draw(t, "rpc"),
		wait: time.Duration(rapid.IntRange(0, 15000).Draw(t, "ms")) * time.Millisecond,
	}
}

// history is what happened to pods, and what must not have.
type history struct {
	*random
	// pods are those that exist at the API server, by name.
	pods map[string]*corev1.Pod
	// ends has when a pod was first told to end, graces every period asked for.
	ends   map[string]time.Time
	graces map[string][]grant
	births int
	broken []string
}

type grant struct {
	at    time.Time
	grace time.Duration
}

func newHistory(t *testing.T) *history {
	t.Helper()
	m := newMachine(t)
	m.SetLives("i", runtimetest.Exits(time.Second, 0))
	h := &history{random: &random{machine: m}, pods: map[string]*corev1.Pod{}, ends: map[string]time.Time{}, graces: map[string][]grant{}}
	h.agent = m.machineAgent()
	return h
}

func (h *history) breaks(format string, args ...any) {
	h.broken = append(h.broken, fmt.Sprintf(format, args...))
}

// born returns a new pod of one of three shapes.
func (h *history) born(slot, shape int) *corev1.Pod {
	h.births++
	always := corev1.ContainerRestartPolicyAlways
	pod := newPod(fmt.Sprintf("pod%d-%d", slot, h.births))
	pod.Annotations = nil
	if shape%3 > 0 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "i", Image: shell})
	}
	if shape%3 > 1 {
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: "s", Image: shell, RestartPolicy: &always})
	}
	return pod
}

// inSlot returns the pod of a slot, nil if there is none.
func (h *history) inSlot(slot int) *corev1.Pod {
	for name, pod := range h.pods {
		if strings.HasPrefix(name, fmt.Sprintf("pod%d-", slot)) {
			return pod
		}
	}
	return nil
}

func (h *history) do(op trouble) {
	pod := h.inSlot(op.pod)
	switch op.what {
	case "create":
		if pod == nil {
			pod = h.born(op.pod, op.arg)
			h.pods[pod.Name] = pod
			h.agent.add(pod)
		}
	case "kill agent":
		h.agent.stop()
		h.agent = h.machineAgent()
		for _, name := range slices.Sorted(maps.Keys(h.pods)) {
			h.agent.add(h.pods[name])
		}
		h.retain()
	case "runtime down":
		h.Down()
		<-time.After(time.Duration(op.arg) * time.Second / 4)
		if err := h.Up(); err != nil {
			h.t.Fatal(err)
		}
	case "fault":
		h.Inject(op.rpc, runtimetest.Fault{Times: 1 + op.arg%2, Late: op.arg%4 < 2, Err: status.Error(codes.Unavailable, "lost")})
	default:
		if pod != nil {
			h.doTo(pod, op)
		}
	}
}

// doTo does something to a pod.
func (h *history) doTo(pod *corev1.Pod, op trouble) {
	switch op.what {
	case "image":
		pod = pod.DeepCopy()
		setImage(pod, []string{"app", "s", "i"}[op.arg%3], []string{shell, other}[op.arg%2])
		h.pods[pod.Name] = pod
		h.agent.add(pod)
	case "delete":
		h.delete(pod, int64(op.arg))
	case "vanish":
		h.vanish(pod)
	case "exit":
		_ = h.Exit("default/"+pod.Name, []string{"app", "s", "i"}[op.arg%3], runtimetest.Exit{Code: int32(op.arg % 2)}) // it may not run
	case "kill sandbox":
		h.killSandbox(pod.UID)
	}
}

// delete asks for the end of a pod. A longer period than before is told to the agent, but
// not kept: an API server only makes it shorter.
func (h *history) delete(pod *corev1.Pod, seconds int64) {
	h.ending(pod.Name, time.Duration(seconds)*time.Second)
	h.agent.add(deleted(pod, seconds))
	if old := pod.DeletionGracePeriodSeconds; old != nil {
		seconds = min(seconds, *old)
	}
	h.pods[pod.Name] = deleted(pod, seconds)
}

func deleted(pod *corev1.Pod, seconds int64) *corev1.Pod {
	pod = pod.DeepCopy()
	at := metav1.NewTime(time.Now().Add(time.Duration(seconds) * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &at, &seconds
	return pod
}

// vanish takes a pod out of its source. One that was not deleted ends in its own period.
func (h *history) vanish(pod *corev1.Pod) {
	delete(h.pods, pod.Name)
	if pod.DeletionTimestamp == nil {
		h.ending(pod.Name, 30*time.Second)
	}
	h.retain()
}

func (h *history) ending(name string, grace time.Duration) {
	if h.ends[name].IsZero() {
		h.ends[name] = time.Now()
	}
	h.graces[name] = append(h.graces[name], grant{time.Now(), grace})
}

// retain names the whole set of pods.
func (h *history) retain() {
	h.agent.pool.Retain(func(yield func(types.UID) bool) {
		for _, pod := range h.pods {
			if !yield(pod.UID) {
				return
			}
		}
	})
}

// settle ends all trouble, lets the pods that are to end be gone, and checks everything.
func (h *history) settle() {
	h.ClearFaults()
	for _, pod := range h.pods {
		if pod.DeletionTimestamp != nil {
			h.vanish(pod)
		}
	}
	h.retain()
	var want []string
	h.wanted = map[string]bool{}
	for name, pod := range h.pods {
		h.wanted[name] = true
		want = append(want, name+"/app")
		if len(pod.Spec.InitContainers) > 1 {
			want = append(want, name+"/s")
		}
	}
	slices.Sort(want)
	// The longest wait is a back-off of five minutes.
	for deadline := time.Now().Add(15 * time.Minute); time.Now().Before(deadline) && !slices.Equal(h.running(), want); {
		pass(10 * time.Second)
	}
	pass(time.Minute)
	h.forgetUnwanted()
	if got := h.running(); !slices.Equal(got, want) {
		h.breaks("%q run at the end, want %q", got, want)
	}
	if left, err := h.agent.syncer.Remains(h.t.Context()); err != nil || len(left) != len(h.pods) {
		h.breaks("something is left of %q (%v), want %d pods", left, err, len(h.pods))
	}
	h.checkStarts()
	h.checkOrder()
	h.checkGrace()
}

// grip is how long a call that is out may take to end after its pod was told to.
const grip = 3 * time.Second

// checkStarts finds containers that were started although their pod was to end.
func (h *history) checkStarts() {
	for _, call := range h.Calls("StartContainer", "CreateContainer", "RunPodSandbox") {
		end := h.ends[podOf(call.Subject)]
		if !end.IsZero() && call.Began.Sub(end) > grip {
			h.breaks("%s comes %s after the pod was told to end", call, call.Began.Sub(end))
		}
	}
}

// podOf returns the name of the pod in "default/name/container".
func podOf(subject string) string {
	parts := strings.Split(subject, "/")
	if len(parts) < 2 {
		return ""
	}
	return parts[1]
}

// checkOrder finds containers that were made before those that have to go first in the
// same sandbox.
func (h *history) checkOrder() {
	made := map[string][]string{}
	for _, call := range h.Calls("CreateContainer") {
		req, ok := call.Request.(*runtimeapi.CreateContainerRequest)
		if !ok {
			continue
		}
		id := req.GetPodSandboxId()
		name := req.GetConfig().GetMetadata().GetName()
		for _, earlier := range h.before(podOf(call.Subject), name) {
			if !slices.Contains(made[id], earlier) {
				h.breaks("%s comes before %s was made in the sandbox", call, earlier)
			}
		}
		made[id] = append(made[id], name)
	}
}

// before returns the init containers that go before a container of a pod.
func (h *history) before(pod, name string) []string {
	var out []string
	for _, c := range h.shapes()[pod] {
		if c == name {
			break
		}
		out = append(out, c)
	}
	return out
}

// shapes returns the init containers of every pod there was, as the runtime was told of
// them.
func (h *history) shapes() map[string][]string {
	out := map[string][]string{}
	for _, call := range h.Calls("CreateContainer") {
		req, ok := call.Request.(*runtimeapi.CreateContainerRequest)
		if !ok {
			continue
		}
		pod, name := podOf(call.Subject), req.GetConfig().GetMetadata().GetName()
		if name != "app" && !slices.Contains(out[pod], name) {
			out[pod] = append(out[pod], name)
		}
	}
	for _, list := range out {
		slices.Sort(list) // i before s
	}
	return out
}

// checkGrace finds containers that were given more time than the shortest period asked
// for until then.
func (h *history) checkGrace() {
	for _, call := range h.Calls("StopContainer") {
		req, ok := call.Request.(*runtimeapi.StopContainerRequest)
		if !ok {
			continue
		}
		most := 30 * time.Second // the default of the API
		for i, g := range h.graces[podOf(call.Subject)] {
			switch {
			case g.at.After(call.Began):
			case i == 0:
				most = g.grace
			default:
				most = min(most, g.grace)
			}
		}
		if got := time.Duration(req.GetTimeout()) * time.Second; got > max(most, 2*time.Second) {
			h.breaks("%s gives %s, want at most %s", call, got, most)
		}
	}
}

var _ podsync.Runtime = (*mortal)(nil)
