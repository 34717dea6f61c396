package podsync

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// noon is when the plans of these tests are made.
var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// planCase is a pod with containers a and b, and what the runtime shows of it.
type planCase struct {
	name string
	edit func(*corev1.Pod)
	seen podstatus.Observed
	in   Inputs
	want string
}

func (c *planCase) run(t *testing.T) {
	t.Helper()
	pod := twoContainers()
	if c.edit != nil {
		c.edit(pod)
	}
	c.in.Now = noon
	c.seen.Sort()
	if diff := cmp.Diff(c.want, Plan(pod, &c.seen, c.in).String()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
}

func twoContainers() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways,
			Containers:    []corev1.Container{{Name: "a", Image: "img:1"}, {Name: "b", Image: "img:1"}},
		},
	}
}

func policy(p corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = p }
}

// ready is a good sandbox.
func ready(id string, attempt uint32) podstatus.Sandbox {
	return podstatus.Sandbox{ID: id, Attempt: attempt, Ready: true, NetworkKnown: true, IPs: []string{"10.88.0.2"}, CreatedAt: noon.Add(-time.Hour)}
}

func deadSandbox(id string, attempt uint32) podstatus.Sandbox {
	return podstatus.Sandbox{ID: id, Attempt: attempt, NetworkKnown: true, CreatedAt: noon.Add(-2 * time.Hour)}
}

// instance is a run of a container in sandbox s0, created an hour ago.
func instance(name, id string, attempt int32, state podstatus.State) podstatus.Instance {
	began := noon.Add(-time.Hour + time.Duration(attempt)*time.Minute)
	return podstatus.Instance{
		Name: name, ID: id, SandboxID: "s0", State: state, RestartCount: attempt,
		Hash: podspec.ContainerHash(&corev1.Container{Name: name, Image: "img:1"}), CreatedAt: began, StartedAt: began,
	}
}

// exited is a run that ended some time ago after five seconds, with the back-off it
// has recorded. The last digit of the id is the attempt.
func exited(name, id string, code int32, ago, step time.Duration) podstatus.Instance {
	attempt := int32(id[len(id)-1] - '0')
	in := instance(name, id, attempt, podstatus.StateExited)
	in.FinishedAt = noon.Add(-ago)
	in.StartedAt = in.FinishedAt.Add(-5 * time.Second)
	in.CreatedAt = in.StartedAt
	in.ExitCode, in.Step = code, step
	return in
}

func running(name, id string) podstatus.Instance {
	return instance(name, id, 0, podstatus.StateRunning)
}

// TestPlanSandbox goes through the decision about the sandbox.
func TestPlanSandbox(t *testing.T) {
	both := []podstatus.Instance{running("a", "a0"), running("b", "b0")}
	fresh := "start container a, attempt 0, then back off 0s\nstart container b, attempt 0, then back off 0s\n"
	again := "start container a, attempt 1, then back off 0s\nstart container b, attempt 1, then back off 0s\n"
	noIP := ready("s0", 0)
	noIP.IPs = nil
	tests := []planCase{
		{name: "nothing yet", want: "run sandbox, attempt 0: no pod sandbox exists\n" + fresh},
		{name: "all well", seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}, Containers: both}},
		{
			name: "two ready", seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0), ready("s1", 1)}, Containers: both},
			want: "kill pod: multiple pod sandboxes are ready and need to be reconciled\n" +
				"run sandbox, attempt 2: multiple pod sandboxes are ready and need to be reconciled\n" + again,
		},
		{
			name: "dead", seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 4)}, Containers: both},
			want: "kill pod: pod sandbox is not ready\nrun sandbox, attempt 5: pod sandbox is not ready\n" + again,
		},
		{
			name: "other network", seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}, Containers: both},
			edit: func(p *corev1.Pod) { p.Spec.HostNetwork = true },
			want: "kill pod: network namespace mode changed and sandbox needs to be recreated\n" +
				"run sandbox, attempt 1: network namespace mode changed and sandbox needs to be recreated\n" + again,
		},
		{
			name: "no address", seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{noIP}, Containers: both},
			want: "kill pod: pod sandbox has no IP address\nrun sandbox, attempt 1: pod sandbox has no IP address\n" + again,
		},
		{
			name: "dead and never to restart", edit: policy(corev1.RestartPolicyNever),
			seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0)}, Containers: both},
			want: "kill pod: pod sandbox is not ready\n",
		},
		{
			name: "dead, never to restart, but nothing ran", edit: policy(corev1.RestartPolicyNever),
			seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0)}, Containers: []podstatus.Instance{instance("a", "a0", 0, podstatus.StateCreated)}},
			want: "kill pod: pod sandbox is not ready\nrun sandbox, attempt 1: pod sandbox is not ready\n" +
				"start container a, attempt 1, then back off 0s\nstart container b, attempt 0, then back off 0s\n" +
				"remove container a, attempt 0 (a0)\n",
		},
		{
			name: "old ones that hold nothing", seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0), deadSandbox("s1", 1)}},
			want: "kill pod: pod sandbox is not ready\nrun sandbox, attempt 2: pod sandbox is not ready\n" + fresh + "remove sandbox s0\n",
		},
		{
			name: "dead, one succeeded", edit: policy(corev1.RestartPolicyOnFailure),
			seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0)}, Containers: []podstatus.Instance{exited("a", "a0", 0, time.Hour, 0), running("b", "b0")}},
			want: "kill pod: pod sandbox is not ready\nrun sandbox, attempt 1: pod sandbox is not ready\nstart container b, attempt 1, then back off 0s\n",
		},
		{
			name: "dead, all succeeded", edit: policy(corev1.RestartPolicyOnFailure),
			seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0)}, Containers: []podstatus.Instance{exited("a", "a0", 0, time.Hour, 0), exited("b", "b0", 0, time.Hour, 0)}},
			want: "kill pod: pod sandbox is not ready\n",
		},
		{
			name: "dead and deleted", edit: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} },
			seen: podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0)}, Containers: both},
			want: "kill pod: pod sandbox is not ready\n",
		},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

// TestPlanContainers goes through the states of one container in a good sandbox.
func TestPlanContainers(t *testing.T) {
	with := func(a ...podstatus.Instance) podstatus.Observed {
		return podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}, Containers: append(a, running("b", "b0"))}
	}
	changed := running("a", "a0")
	changed.Hash = "12345678"
	stray := running("a", "a0")
	stray.SandboxID = "s-old"
	healthy := exited("a", "a7", 1, time.Second, 160*time.Second)
	healthy.StartedAt = healthy.FinishedAt.Add(-601 * time.Second)
	foreign := exited("a", "a3", 1, 10*time.Second, -1)
	foreign.Hash = ""
	created := instance("a", "a0", 0, podstatus.StateCreated)
	young := created
	young.CreatedAt = noon.Add(-30 * time.Second)
	tests := []planCase{
		{name: "missing", seen: with(), want: "start container a, attempt 0, then back off 0s\n"},
		{name: "created", seen: with(created), want: "start container a as created (a0)\n"},
		{
			name: "created, start failed lately", seen: with(young), in: Inputs{FailedStarts: map[string]bool{"a0": true}},
			want: "let container a wait until 2026-06-01T12:00:30Z: RunContainerError\n",
		},
		{
			name: "created, start failed long ago", seen: with(created), in: Inputs{FailedStarts: map[string]bool{"a0": true}},
			want: "start container a, attempt 1, then back off 0s\nremove container a, attempt 0 (a0)\n",
		},
		{
			name: "unknown", seen: with(instance("a", "a0", 0, podstatus.StateUnknown)),
			want: "stop container a (a0): Container is in \"unknown\" state, try killing it before restart\nstart container a, attempt 1, then back off 0s\n",
		},
		{
			name: "unknown and never to restart", edit: policy(corev1.RestartPolicyNever), seen: with(instance("a", "a0", 0, podstatus.StateUnknown)),
			want: "stop container a (a0): Container is in \"unknown\" state, try killing it before restart\n",
		},
		{
			name: "two runs", seen: with(running("a", "a0"), instance("a", "a1", 1, podstatus.StateRunning)),
			want: "stop container a (a0): Container a has a newer run\n",
		},
		{
			name: "not in the spec", seen: with(running("a", "a0"), running("z", "z0")),
			want: "stop container z (z0): Container z is not in the spec of the pod\n",
		},
		{
			name: "definition changed", seen: with(changed),
			want: "stop container a (a0): Container a definition changed, will be restarted\nstart container a, attempt 1, then back off 0s\n",
		},
		{
			name: "in an old sandbox", seen: with(stray),
			want: "stop container a (a0): Container a runs in an old sandbox, will be restarted\nstart container a, attempt 1, then back off 0s\n",
		},
		{name: "first crash", seen: with(exited("a", "a0", 1, time.Millisecond, 0)), want: "start container a, attempt 1, then back off 10s\n"},
		{
			name: "second crash", seen: with(exited("a", "a1", 1, 4*time.Second, 10*time.Second)),
			want: "let container a wait until 2026-06-01T12:00:06Z: CrashLoopBackOff\n",
		},
		{name: "second crash, waited", seen: with(exited("a", "a1", 1, 10*time.Second, 10*time.Second)), want: "start container a, attempt 2, then back off 20s\n"},
		{name: "at the limit", seen: with(exited("a", "a9", 1, 300*time.Second, 300*time.Second)), want: "start container a, attempt 10, then back off 5m0s\n"},
		{name: "lower limit", seen: with(exited("a", "a9", 1, 3*time.Second, 300*time.Second)), in: Inputs{MaxBackoff: 3 * time.Second}, want: "start container a, attempt 10, then back off 3s\n"},
		{name: "after a long run", seen: with(healthy), want: "start container a, attempt 8, then back off 10s\n"},
		{name: "crash of a foreign container", seen: with(foreign), want: "let container a wait until 2026-06-01T12:00:30Z: CrashLoopBackOff\n"},
		{name: "exit 0, on failure", edit: policy(corev1.RestartPolicyOnFailure), seen: with(exited("a", "a0", 0, time.Second, 0))},
		{name: "exit 1, never", edit: policy(corev1.RestartPolicyNever), seen: with(exited("a", "a0", 1, time.Second, 0))},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

type failing map[string]podstatus.Probe

func (f failing) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	if k, ok := f[id]; ok && k == kind {
		return podstatus.Failure
	}
	return podstatus.Undecided
}

// TestPlanProbes has container a with all probes and container b with none.
func TestPlanProbes(t *testing.T) {
	probed := func(p corev1.RestartPolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			c := &pod.Spec.Containers[0]
			c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = &corev1.Probe{}, &corev1.Probe{}, &corev1.Probe{}
			pod.Spec.RestartPolicy = p
		}
	}
	seen := podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}, Containers: []podstatus.Instance{running("a", "a0"), running("b", "b0")}}
	tests := []planCase{
		{
			name: "liveness", edit: probed(corev1.RestartPolicyAlways), seen: seen, in: Inputs{Prober: failing{"a0": podstatus.Liveness}},
			want: "stop container a (a0): Container a failed liveness probe, will be restarted\n",
		},
		{
			name: "startup, never", edit: probed(corev1.RestartPolicyNever), seen: seen, in: Inputs{Prober: failing{"a0": podstatus.Startup}},
			want: "stop container a (a0): Container a failed startup probe\n",
		},
		{name: "readiness", edit: probed(corev1.RestartPolicyAlways), seen: seen, in: Inputs{Prober: failing{"a0": podstatus.Readiness}}},
		{name: "no probe", edit: probed(corev1.RestartPolicyAlways), seen: seen, in: Inputs{Prober: failing{"b0": podstatus.Liveness}}},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

// TestPlanCollects keeps, of each name, the newest instance and the newest dead one.
func TestPlanCollects(t *testing.T) {
	old := func(name, id string, attempt int32, sandbox string) podstatus.Instance {
		in := exited(name, id, 1, time.Duration(60-attempt)*time.Minute, 0)
		in.SandboxID = sandbox
		return in
	}
	current := running("a", "a3")
	current.SandboxID, current.RestartCount, current.CreatedAt = "s1", 3, noon.Add(-time.Minute)
	other := running("b", "b1")
	other.SandboxID, other.RestartCount = "s1", 1
	tests := []planCase{
		{
			name: "dead containers",
			seen: podstatus.Observed{
				Sandboxes:  []podstatus.Sandbox{ready("s1", 1)},
				Containers: []podstatus.Instance{current, other, old("a", "a0", 0, "s1"), old("a", "a1", 1, "s1"), old("a", "a2", 2, "s1")},
			},
			want: "remove container a, attempt 1 (a1)\nremove container a, attempt 0 (a0)\n",
		},
		{
			name: "old sandboxes",
			seen: podstatus.Observed{
				Sandboxes:  []podstatus.Sandbox{ready("s1", 3), deadSandbox("s0", 2), deadSandbox("s-1", 1), deadSandbox("s-2", 0)},
				Containers: []podstatus.Instance{current, other, old("a", "a2", 2, "s0"), old("a", "a1", 1, "s-1")},
			},
			want: "remove container a, attempt 1 (a1)\nremove sandbox s-1\nremove sandbox s-2\n",
		},
		{
			name: "of a container that left the spec",
			seen: podstatus.Observed{
				Sandboxes:  []podstatus.Sandbox{ready("s1", 1)},
				Containers: []podstatus.Instance{current, other, old("z", "z1", 1, "s1"), old("z", "z0", 0, "s1")},
			},
			want: "remove container z, attempt 0 (z0)\n",
		},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

// fiveRunning is a pod of five containers that run, each in its second run.
func fiveRunning() (*corev1.Pod, *podstatus.Observed) {
	pod := twoContainers()
	pod.Spec.Containers = nil
	seen := &podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}}
	for i := range 5 {
		name := fmt.Sprintf("c%d", i)
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Image: "img:1"})
		current := running(name, name+"-1")
		current.RestartCount = 1
		seen.Containers = append(seen.Containers, current, exited(name, name+"-0", 1, 2*time.Hour, 0))
	}
	seen.Sort()
	return pod, seen
}

// TestPlanIsCheap bounds what a plan costs a node on which nothing happens.
func TestPlanIsCheap(t *testing.T) {
	pod, seen := fiveRunning()
	if n := testing.AllocsPerRun(100, func() { Plan(pod, seen, Inputs{Now: noon}) }); n > 60 {
		t.Errorf("a plan of five containers takes %v allocations, want at most 60", n)
	}
}

func BenchmarkPlan(b *testing.B) {
	pod, seen := fiveRunning()
	b.ReportAllocs()
	for b.Loop() {
		if a := Plan(pod, seen, Inputs{Now: noon}); !a.Empty() {
			b.Fatal(a)
		}
	}
}

// TestPlanAfterTheClockWasSetBack looks every ten seconds at a container that ended
// in the future: it starts again in the end.
func TestPlanAfterTheClockWasSetBack(t *testing.T) {
	end := exited("a", "a1", 1, -time.Hour, 20*time.Second)
	late := instance("b", "b1", 1, podstatus.StateCreated)
	late.CreatedAt = noon.Add(time.Hour)
	seen := podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}, Containers: []podstatus.Instance{end, late}}
	started := map[string]time.Duration{}
	for after := time.Duration(0); after < 30*time.Minute; after += 10 * time.Second {
		in := Inputs{Now: noon.Add(after), FailedStarts: map[string]bool{"b1": true}}
		for _, s := range Plan(twoContainers(), &seen, in).Start {
			if _, ok := started[s.Name]; !ok {
				started[s.Name] = after
			}
		}
	}
	for name, limit := range map[string]time.Duration{"a": 40 * time.Second, "b": 2 * createdPatience} {
		if after, ok := started[name]; !ok || after > limit {
			t.Errorf("%s started after %s (%v), want at most %s", name, after, ok, limit)
		}
	}
}
