package podsync_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/runtime"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestRandomEvents lets pods come and go while containers end, sandboxes die, calls
// fail or lose their answers, the runtime goes down and the agent is killed. At any
// time a pod has at most one ready sandbox; in the end exactly the wanted pods run,
// and of the others nothing is left.
func TestRandomEvents(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			bubble(t, func(m *machine) {
				r := &random{machine: m, rand: rand.New(rand.NewPCG(seed, 1)), wanted: map[string]bool{}}
				r.agent = m.machineAgent()
				for range 60 {
					r.step()
					<-time.After(time.Duration(r.rand.IntN(15000)) * time.Millisecond)
					r.checkSandboxes()
				}
				r.settle()
			})
		})
	}
}

func (m *machine) machineAgent() *agent { return m.agent(m.t) }

// random is a machine in trouble.
type random struct {
	*machine
	agent  *agent
	rand   *rand.Rand
	wanted map[string]bool
	log    []string
}

func (r *random) step() {
	name := fmt.Sprint("pod", r.rand.IntN(3))
	switch r.rand.IntN(8) {
	case 0, 1:
		r.did("add " + name)
		r.wanted[name] = true
		r.agent.add(newPod(name))
	case 2:
		r.did("remove " + name)
		delete(r.wanted, name)
		r.agent.remove(newPod(name))
	case 3:
		r.did("exit " + name)
		_ = r.Exit("default/"+name, "app", runtimetest.Exit{Code: int32(r.rand.IntN(2))}) // it may not run
	case 4:
		r.fault()
	case 5:
		r.did("kill sandbox of " + name)
		r.killSandbox(types.UID("uid-" + name))
	case 6:
		r.did("kill agent")
		r.agent.stop()
		r.restart()
	case 7:
		r.did("runtime down")
		r.Down()
		<-time.After(time.Duration(r.rand.IntN(10)) * time.Second)
		if err := r.Up(); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *random) did(what string) { r.log = append(r.log, what) }

// restart starts the next process of the agent and hands it the wanted pods.
func (r *random) restart() {
	r.agent = r.machineAgent()
	for name := range r.wanted {
		r.agent.add(newPod(name))
	}
}

func (r *random) fault() {
	rpcs := []string{"RunPodSandbox", "StopPodSandbox", "RemovePodSandbox", "CreateContainer", "StartContainer", "StopContainer", "RemoveContainer", "ListContainers", "ContainerStatus"}
	rpc := rpcs[r.rand.IntN(len(rpcs))]
	f := runtimetest.Fault{Times: 1 + r.rand.IntN(2), Late: r.rand.IntN(2) == 0, Err: status.Error(codes.Unavailable, "lost")}
	r.did(fmt.Sprintf("fault %s ×%d late %t", rpc, f.Times, f.Late))
	r.Inject(rpc, f)
}

// raw returns a client that is not the agent's.
func (r *random) raw() *runtime.Client {
	c, err := runtime.Dial(r.t.Context(), r.Endpoint(), runtime.Config{Dialer: r.DialContext})
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// sandboxes returns the ready sandboxes of all pods, or of one.
func (r *random) sandboxes(uid types.UID) []*runtimeapi.PodSandbox {
	c := r.raw()
	defer c.Close()
	filter := &runtimeapi.PodSandboxFilter{State: &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}}
	if uid != "" {
		filter.LabelSelector = map[string]string{podspec.LabelPodUID: string(uid)}
	}
	list, err := c.ListPodSandbox(r.t.Context(), filter)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

func (r *random) killSandbox(uid types.UID) {
	c := r.raw()
	defer c.Close()
	for _, sb := range r.sandboxes(uid) {
		_ = c.StopPodSandbox(r.t.Context(), sb.GetId()) // a fault may hit it
	}
}

func (r *random) checkSandboxes() {
	r.t.Helper()
	seen := map[string]string{}
	for _, sb := range r.sandboxes("") {
		name := sb.GetMetadata().GetName()
		if other, ok := seen[name]; ok {
			r.t.Fatalf("%s has two ready sandboxes, %s and %s, after %q", name, other, sb.GetId(), r.log)
		}
		seen[name] = sb.GetId()
	}
}

// settle ends all trouble and checks what is there.
func (r *random) settle() {
	r.ClearFaults()
	if len(r.wanted) == 0 {
		r.agent.remove(newPod("pod0"))
	}
	var want []string
	for name := range r.wanted {
		want = append(want, name+"/app")
	}
	slices.Sort(want)
	// The longest wait is a back-off of five minutes. Fake time costs real time here,
	// since the agent looks at the runtime every second.
	for deadline := time.Now().Add(15 * time.Minute); time.Now().Before(deadline) && !slices.Equal(r.running(), want); {
		pass(10 * time.Second)
	}
	pass(time.Minute)
	r.forgetUnwanted()
	if got := r.running(); !slices.Equal(got, want) {
		r.t.Errorf("%q run, want %q, after %q", got, want, r.log)
	}
	left, err := r.agent.syncer.Remains(r.t.Context())
	if err != nil || len(left) != len(want) {
		r.t.Errorf("something is left of %q (%v), want of %q only, after %q", left, err, want, r.log)
	}
	for name := range r.wanted {
		if st := r.agent.status(newPod(name)); st.Phase != corev1.PodRunning {
			r.t.Errorf("phase of %s is %s, after %q", name, st.Phase, r.log)
		}
	}
}

// forgetUnwanted does what a node does: it stops orphans and forgets what is over.
func (r *random) forgetUnwanted() {
	ctx := r.t.Context()
	left, err := r.agent.syncer.Remains(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, uid := range left {
		if name := string(uid)[len("uid-"):]; r.wanted[name] {
			continue
		}
		pod := newPod(string(uid)[len("uid-"):])
		if err := r.agent.syncer.SyncTerminating(ctx, pod, inOneSecond); err != nil {
			r.t.Error(err)
		}
		if err := r.agent.syncer.Forget(ctx, uid); err != nil {
			r.t.Error(err)
		}
	}
}

func (r *random) running() []string {
	c := r.raw()
	defer c.Close()
	list, err := c.ListContainers(r.t.Context(), &runtimeapi.ContainerFilter{
		State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	var names []string
	for _, ct := range list {
		names = append(names, ct.GetLabels()[podspec.LabelPodName]+"/"+ct.GetMetadata().GetName())
	}
	slices.Sort(names)
	return names
}
