package node_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// trouble is a machine to which things happen in a random order.
type trouble struct {
	*machine
	rand    *rand.Rand
	kubelet *kubelet
	// want are the versions of the pods that have a manifest, by name.
	want map[string]int
	// next is the version of the next edit.
	next int
}

// names of the pods.
func (*trouble) names() []string { return []string{"a", "b", "c"} }

// write writes the manifests that are wanted. Each version has its own UID.
func (tr *trouble) write() {
	var pods []*corev1.Pod
	for _, name := range tr.names() {
		if version, ok := tr.want[name]; ok {
			pod := newPod(name)
			pod.UID = types.UID(fmt.Sprintf("uid-%s-%d", name, version))
			c := &pod.Spec.Containers[0]
			c.LivenessProbe, c.ReadinessProbe = runs("liveness"), runs("readiness")
			pods = append(pods, pod)
		}
	}
	tr.manifests.write(pods...)
}

// step lets one thing happen.
func (tr *trouble) step() string {
	name := tr.names()[tr.rand.IntN(3)]
	switch tr.rand.IntN(9) {
	case 0, 1:
		tr.next++
		tr.want[name] = tr.next
		tr.write()
		return fmt.Sprintf("write %s, version %d", name, tr.next)
	case 2:
		delete(tr.want, name)
		tr.write()
		return "remove " + name
	case 3:
		tr.kubelet.end()
		tr.kubelet = tr.start(tr.t)
		return "restart the agent"
	case 4:
		tr.commands.set(failing([]string{"readiness", "liveness", "none"}[tr.rand.IntN(3)]))
		return "other probes fail"
	case 5:
		if err := tr.Exit("default/"+name, "app", runtimetest.Exit{Code: 1}); err != nil {
			return "no container of " + name + " to kill"
		}
		return "kill the container of " + name
	case 6:
		tr.Down()
		pass(time.Duration(tr.rand.IntN(5000)) * time.Millisecond)
		if err := tr.Up(); err != nil {
			tr.t.Fatal(err)
		}
		return "restart the runtime"
	case 7:
		rpcs := []string{"RunPodSandbox", "CreateContainer", "StartContainer", "StopContainer", "StopPodSandbox", "RemovePodSandbox", "ListContainers", "PodSandboxStatus"}
		rpc := rpcs[tr.rand.IntN(len(rpcs))]
		f := runtimetest.Fault{Times: 1, Err: status.Error(codes.Unavailable, "trouble"), Late: tr.rand.IntN(2) == 0}
		tr.Inject(rpc, f)
		return fmt.Sprintf("%s fails, late: %t", rpc, f.Late)
	}
	return "nothing"
}

// check fails the test when two sandboxes of one name are ready.
func (tr *trouble) check() {
	tr.t.Helper()
	c := tr.Client(tr.t)
	defer c.Close()
	list, err := c.ListPodSandbox(tr.t.Context(), &runtimeapi.PodSandboxFilter{
		State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		return // a fault of the test's own
	}
	seen := map[string]string{}
	for _, sb := range list {
		name, uid := sb.GetMetadata().GetName(), sb.GetMetadata().GetUid()
		if seen[name] != "" {
			tr.t.Fatalf("sandboxes of %s and %s are ready at once", seen[name], uid)
		}
		seen[name] = uid
	}
}

// TestRandomTrouble: whatever happens to manifests, containers, runtime and agent,
// no two versions of a pod run at once, a stranger is never touched, and in the end
// what is wanted runs and nothing else is left.
func TestRandomTrouble(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onMachine(t, func(m *machine) { runTrouble(m, uint64(seed)) }) //nolint:gosec // not negative
		})
	}
}

func runTrouble(m *machine, seed uint64) {
	t := m.t
	stranger := m.stranger(t, newPod("stranger"), nil)
	tr := &trouble{machine: m, rand: rand.New(rand.NewPCG(seed, 0)), want: map[string]int{}} //nolint:gosec // to be repeated
	tr.kubelet = m.start(t)
	for range 30 {
		t.Log(time.Now().Format("15:04:05.000"), tr.step())
		for range tr.rand.IntN(8) {
			pass(time.Duration(tr.rand.IntN(3000)) * time.Millisecond)
			tr.check()
		}
	}
	m.ClearFaults()
	m.commands.set(nil)
	pass(6 * time.Minute) // longer than any back-off
	tr.check()
	var want, got []string
	for name, version := range tr.want {
		want = append(want, fmt.Sprintf("%s uid-%s-%d Running True", name, name, version))
	}
	for name, pod := range tr.kubelet.pods() {
		got = append(got, fmt.Sprintf("%s %s %s %s", name, pod.UID, pod.Status.Phase, tr.kubelet.ready(name).Status))
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("pods are %q, want %q", got, want)
	}
	if running := m.containers(t); len(running) != len(want)+1 || running["stranger"] != stranger {
		t.Errorf("containers are %v, want those of %q and the stranger %s", running, want, stranger)
	}
	clear(tr.want)
	tr.write()
	pass(2 * time.Minute)
	if probed := tr.kubelet.probes(); len(probed) > 0 {
		t.Errorf("probed are %v, want none", probed)
	}
	if left := m.left(t); len(left) != 1 || !strings.Contains(left[0], "stranger") {
		t.Errorf("left over: %q, want the stranger", left)
	}
}
