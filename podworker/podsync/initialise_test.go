package podsync

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// stages gives a pod the init containers i and j and the sidecar s between them, and
// leaves it container a.
func stages(edit ...func(*corev1.Pod)) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		always := corev1.ContainerRestartPolicyAlways
		pod.Spec.InitContainers = []corev1.Container{
			{Name: "i", Image: "img:1"}, {Name: "s", Image: "img:1", RestartPolicy: &always}, {Name: "j", Image: "img:1"},
		}
		pod.Spec.Containers = pod.Spec.Containers[:1]
		for _, e := range edit {
			e(pod)
		}
	}
}

// in has the runs of a pod in a good sandbox.
func in(runs ...podstatus.Instance) podstatus.Observed {
	return podstatus.Observed{Sandboxes: []podstatus.Sandbox{ready("s0", 0)}, Containers: runs}
}

// done is an init container that succeeded in its only run.
func done(name string) podstatus.Instance { return exited(name, name+"0", 0, time.Minute, 0) }

func failedRun(name string) podstatus.Instance { return exited(name, name+"0", 1, time.Minute, 0) }

func startupProbe(pod *corev1.Pod) { pod.Spec.InitContainers[1].StartupProbe = &corev1.Probe{} }

type passing map[string]podstatus.Probe

func (f passing) ProbeResult(id string, kind podstatus.Probe) podstatus.Result {
	if k, ok := f[id]; ok && k == kind {
		return podstatus.Success
	}
	return podstatus.Undecided
}

// TestPlanInitialises walks through a pod with two init containers and a sidecar.
func TestPlanInitialises(t *testing.T) {
	oom := done("j")
	oom.Reason = "OOMKilled"
	tests := []planCase{
		{name: "no sandbox", edit: stages(), want: "run sandbox, attempt 0: no pod sandbox exists\nstart init container i, attempt 0, then back off 0s\n"},
		{name: "nothing ran", edit: stages(), seen: in(), want: "start init container i, attempt 0, then back off 0s\n"},
		{name: "the first runs", edit: stages(), seen: in(running("i", "i0"))},
		{name: "the first was created", edit: stages(), seen: in(instance("i", "i0", 0, podstatus.StateCreated)), want: "start init container i as created (i0)\n"},
		{name: "the first is done", edit: stages(), seen: in(done("i")), want: "start sidecar s, attempt 0, then back off 0s\n"},
		{name: "the first failed", edit: stages(), seen: in(failedRun("i")), want: "start init container i, attempt 1, then back off 10s\n"},
		{name: "the first failed for good", edit: stages(policy(corev1.RestartPolicyNever)), seen: in(failedRun("i")), want: "kill pod: nothing is left to run\n"},
		{name: "the sidecar runs", edit: stages(), seen: in(done("i"), running("s", "s0")), want: "start init container j, attempt 0, then back off 0s\n"},
		{name: "the sidecar starts up", edit: stages(startupProbe), seen: in(done("i"), running("s", "s0"))},
		{
			name: "the sidecar has started", edit: stages(startupProbe), seen: in(done("i"), running("s", "s0")),
			in: Inputs{Prober: passing{"s0": podstatus.Startup}}, want: "start init container j, attempt 0, then back off 0s\n",
		},
		{
			name: "the sidecar had started before the agent", edit: stages(startupProbe), seen: in(done("i"), running("s", "s0")),
			in: Inputs{Started: map[string]bool{"s0": true}}, want: "start init container j, attempt 0, then back off 0s\n",
		},
		{
			name: "the sidecar does not start", edit: stages(startupProbe), seen: in(done("i"), running("s", "s0")),
			in: Inputs{Prober: failing{"s0": podstatus.Startup}}, want: "stop container s (s0): Init container s failed startup probe\n",
		},
		{
			name: "the sidecar ended while the next one runs", edit: stages(), seen: in(done("i"), done("s"), running("j", "j0")),
			want: "start sidecar s, attempt 1, then back off 10s\n",
		},
		{name: "the last one is done", edit: stages(), seen: in(done("i"), running("s", "s0"), done("j")), want: "start container a, attempt 0, then back off 0s\n"},
		{name: "the last one ran out of memory", edit: stages(policy(corev1.RestartPolicyNever)), seen: in(done("i"), running("s", "s0"), oom), want: "kill pod: nothing is left to run\n"},
		{name: "only the last record is left", edit: stages(), seen: in(running("s", "s0"), done("j")), want: "start container a, attempt 0, then back off 0s\n"},
		{name: "all runs", edit: stages(), seen: in(running("s", "s0"), done("j"), running("a", "a0"))},
		{name: "no record is left", edit: stages(), seen: in(running("s", "s0"), running("a", "a0"))},
		{name: "not even of the sidecar", edit: stages(), seen: in(running("a", "a0")), want: "start sidecar s, attempt 0, then back off 0s\n"},
		{
			name: "a new image of a finished init container", edit: stages(func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "img:2" }),
			seen: in(done("i"), running("s", "s0"), done("j"), running("a", "a0")),
		},
		{
			name: "a new image of the sidecar", edit: stages(func(p *corev1.Pod) { p.Spec.InitContainers[1].Image = "img:2" }),
			seen: in(done("i"), running("s", "s0"), done("j"), running("a", "a0")),
			want: "stop container s (s0): Init container s definition changed\nstart sidecar s, attempt 1, then back off 0s\n",
		},
		{
			name: "the work is done", edit: stages(policy(corev1.RestartPolicyNever)), seen: in(running("s", "s0"), done("j"), done("a")),
			want: "kill pod: nothing is left to run\n",
		},
		{
			name: "the work is done and the sidecar, too", edit: stages(policy(corev1.RestartPolicyNever)), seen: in(done("s"), done("j"), done("a")),
			want: "kill pod: nothing is left to run\n",
		},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

// TestRebootWithInitContainers has what a power cut leaves: whatever the old sandbox
// shows of the regular container, the new one begins with the first init container, and
// nothing of the old one counts for it.
func TestRebootWithInitContainers(t *testing.T) {
	states := map[string]podstatus.Instance{
		"created": instance("a", "a0", 0, podstatus.StateCreated),
		"exited":  exited("a", "a0", 255, time.Minute, 0),
		"running": running("a", "a0"),
	}
	two := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{Name: "i", Image: "img:1"}, {Name: "j", Image: "img:1"}}
		p.Spec.Containers = p.Spec.Containers[:1]
	}
	for name, app := range states {
		seen := podstatus.Observed{Sandboxes: []podstatus.Sandbox{deadSandbox("s0", 0)}, Containers: []podstatus.Instance{done("i"), done("j"), app}}
		want := "kill pod: pod sandbox is not ready\nrun sandbox, attempt 1: pod sandbox is not ready\nstart init container i, attempt 1, then back off 10s\n"
		if name == "created" {
			want += "remove container a, attempt 0 (a0)\n"
		}
		(&planCase{edit: two, seen: seen, want: want}).run(t)

		first := exited("i", "i1", 0, time.Second, 10*time.Second)
		first.SandboxID = "s1"
		seen.Sandboxes = append(seen.Sandboxes, ready("s1", 1))
		seen.Containers = append(seen.Containers, first)
		plan := Plan(planned(two), sorted(seen), Inputs{Now: noon})
		if len(plan.Start) != 1 || plan.Start[0].Name != "j" {
			t.Errorf("app %s: after the first init container the plan is\n%s", name, plan)
		}
	}
}

func planned(edit func(*corev1.Pod)) *corev1.Pod {
	pod := twoContainers()
	edit(pod)
	return pod
}

func sorted(seen podstatus.Observed) *podstatus.Observed {
	seen.Sort()
	return &seen
}

// TestPlanRestartRules has containers with a policy and rules of their own.
func TestPlanRestartRules(t *testing.T) {
	never := corev1.ContainerRestartPolicyNever
	rule := func(action corev1.ContainerRestartRuleAction) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			pod.Spec.Containers[0].RestartPolicy = &never
			pod.Spec.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action:    action,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}}
		}
	}
	with := func(code int32, ago, step time.Duration) podstatus.Observed {
		return in(exited("a", "a1", code, ago, step), running("b", "b0"))
	}
	tests := []planCase{
		{name: "matches", edit: rule(corev1.ContainerRestartRuleActionRestart), seen: with(42, time.Minute, 0), want: "start container a, attempt 2, then back off 10s\n"},
		{name: "does not match", edit: rule(corev1.ContainerRestartRuleActionRestart), seen: with(1, time.Minute, 0)},
		{
			name: "all", edit: rule(corev1.ContainerRestartRuleActionRestartAllContainers), seen: with(42, time.Minute, 0),
			want: "restart all containers\nstop container b (b0): Stopping container b, all containers restart\n" +
				"remove container b, attempt 0 (b0)\nremove container a, attempt 1 (a1)\n",
		},
		{
			name: "all, in a moment", edit: rule(corev1.ContainerRestartRuleActionRestartAllContainers), seen: with(42, time.Second, 10*time.Second),
			want: "let container a wait until 2026-06-01T12:00:09Z: CrashLoopBackOff\n",
		},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

// TestPlanEphemeralContainers starts each once, even before the pod is initialised.
func TestPlanEphemeralContainers(t *testing.T) {
	debug := stages(func(pod *corev1.Pod) {
		pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", Image: "img:1"}}}
	})
	tests := []planCase{
		{name: "added", edit: debug, seen: in(running("i", "i0")), want: "start ephemeral container d, attempt 0, then back off 0s\n"},
		{name: "runs", edit: debug, seen: in(running("i", "i0"), running("d", "d0"))},
		{name: "ended", edit: debug, seen: in(running("i", "i0"), exited("d", "d0", 1, time.Minute, 0))},
		{name: "was created", edit: debug, seen: in(running("i", "i0"), instance("d", "d0", 0, podstatus.StateCreated)), want: "start ephemeral container d as created (d0)\n"},
		{
			name: "could not be started", edit: debug, seen: in(running("i", "i0"), instance("d", "d0", 0, podstatus.StateCreated)),
			in: Inputs{FailedStarts: map[string]bool{"d0": true}}, want: "let container d be: RunContainerError\n",
		},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}

// TestPlanResizes gives running containers other resources.
func TestPlanResizes(t *testing.T) {
	asks := func(cpu string, policies ...corev1.ContainerResizePolicy) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			pod.Spec.Containers[0].ResizePolicy = policies
		}
	}
	given := map[string]corev1.ResourceRequirements{"a0": {Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}}
	restart := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}
	other := corev1.ContainerResizePolicy{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}
	seen := in(running("a", "a0"), running("b", "b0"))
	tests := []planCase{
		{name: "same", edit: asks("0.1"), seen: seen, in: Inputs{Actuated: given}},
		{name: "nothing known", edit: asks("200m"), seen: seen},
		{name: "more", edit: asks("200m"), seen: seen, in: Inputs{Actuated: given}, want: "resize container a (a0): cpu 100m/- → 200m/-\n"},
		{name: "another resource needs a restart", edit: asks("200m", other), seen: seen, in: Inputs{Actuated: given}, want: "resize container a (a0): cpu 100m/- → 200m/-\n"},
		{
			name: "needs a restart", edit: asks("200m", restart), seen: seen, in: Inputs{Actuated: given},
			want: "stop container a (a0): Container a resize requires restart, will be restarted\nstart container a, attempt 1, then back off 0s\n",
		},
		{
			name: "an edit ends the back-off", edit: asks("200m"), seen: in(exited("a", "a1", 1, time.Second, time.Minute), running("b", "b0")),
			in:   Inputs{Actuated: map[string]corev1.ResourceRequirements{"a1": given["a0"]}},
			want: "start container a, attempt 2, then back off 0s\n",
		},
	}
	for i := range tests {
		t.Run(tests[i].name, tests[i].run)
	}
}
