package node_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/test/testnode"
)

// feature is one thing a pod can ask for: a pod that does, and what has to be seen.
type feature struct {
	name string
	args []string
	edit func(*corev1.Pod)
	// want says what is missing; nil: the pod has to be ready.
	want func(*agent, *corev1.Pod) error
}

// TestEveryFeatureOnce runs a pod for each feature, all at the same time.
func TestEveryFeatureOnce(t *testing.T) { runFeatures(startAgent(t)) }

// TestEveryFeatureOnceOnContainerd2 does so on a current containerd.
func TestEveryFeatureOnceOnContainerd2(t *testing.T) {
	runFeatures(startAgentOn(t, currentContainerd(t)))
}

// currentContainerd is a node with a current containerd, and further current tools, for
// one test.
func currentContainerd(t *testing.T, tools ...string) *suite {
	t.Helper()
	shared := useNode(t)
	testnode.NeedTools(t)
	dir := t.TempDir()
	if err := testnode.ToolFolder(t.Context(), dir, append(tools, "containerd", "containerd-shim-runc-v2", "ctr")...); err != nil {
		t.Fatal(err)
	}
	node, err := testnode.Start(t.Context(), testnode.Config{Name: "current", Logs: t.ArtifactDir(), Containerd: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := node.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	for _, image := range []testnode.Image{testnode.Pause(), testnode.Web(), testnode.Life()} {
		if err := node.ImportImage(t.Context(), image); err != nil {
			t.Fatal(err)
		}
	}
	return &suite{Node: node, kubeletBinary: shared.kubeletBinary, kubeProxyBinary: shared.kubeProxyBinary}
}

func runFeatures(a *agent) {
	a.t.Helper()
	all := slices.Concat(featuresOfLife(), featuresOfContent(a), featuresOfSecurity(), featuresOfProbes(), featuresOfParts(a))
	for _, f := range all {
		pod := newPod(f.name, f.args...)
		if f.edit != nil {
			f.edit(pod)
		}
		a.runPod(pod)
	}
	began := time.Now()
	for _, f := range all {
		a.eventually("feature "+f.name, func(ctx context.Context) error {
			pod, err := a.kubelet.Pod(ctx, podName(f.name))
			switch {
			case err != nil:
				return err
			case f.want != nil:
				err = f.want(a, pod)
			case !ready(pod):
				err = errors.New("the pod is not ready")
			}
			if err != nil {
				return fmt.Errorf("%w; its status is %s, %s: %s; %+v", err, pod.Status.Phase, pod.Status.Reason, pod.Status.Message, pod.Status.ContainerStatuses)
			}
			return nil
		})
	}
	a.eventually("all pods are held to the memory that the node offers", a.checkNodeLimit)
	a.t.Logf("%d pods were as they should be after %s", len(all), time.Since(began).Round(time.Millisecond))
}

// checkNodeLimit compares the limit of all pods with the memory of the machine, of which
// nothing is reserved.
func (a *agent) checkNodeLimit(context.Context) error {
	machine, err := capacity.Read(capacity.Config{StorageDir: "/"})
	if err != nil {
		return err
	}
	total := machine.Resources(0)[corev1.ResourceMemory]
	group := a.CgroupRoot() + "/kubepods"
	raw, err := os.ReadFile("/sys/fs/cgroup/memory" + group + "/memory.limit_in_bytes")
	if errors.Is(err, fs.ErrNotExist) {
		raw, err = os.ReadFile("/sys/fs/cgroup" + group + "/memory.max") // version 2
	}
	if want := fmt.Sprint(total.Value()); err == nil && strings.TrimSpace(string(raw)) != want {
		err = fmt.Errorf("the limit is %s, want %s", raw, want)
	}
	return err
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// mainOf returns the container that every pod here has.
func mainOf(pod *corev1.Pod) *corev1.Container { return &pod.Spec.Containers[0] }

// phase wants a phase, and a reason if one is given.
func phase(want corev1.PodPhase, reason string) func(*agent, *corev1.Pod) error {
	return func(_ *agent, pod *corev1.Pod) error {
		if pod.Status.Phase != want || pod.Status.Reason != reason {
			return fmt.Errorf("phase is not %s or reason not %q", want, reason)
		}
		return nil
	}
}

// restarted wants the container to run for the second time at least.
func restarted(_ *agent, pod *corev1.Pod) error {
	if len(pod.Status.ContainerStatuses) == 0 || pod.Status.ContainerStatuses[0].RestartCount < 1 {
		return errors.New("the container was not restarted")
	}
	return nil
}

// waiting wants the container to wait for a reason.
func waiting(reasons ...string) func(*agent, *corev1.Pod) error {
	return func(_ *agent, pod *corev1.Pod) error {
		for _, c := range pod.Status.ContainerStatuses {
			if c.State.Waiting != nil && slices.Contains(reasons, c.State.Waiting.Reason) {
				return nil
			}
		}
		return fmt.Errorf("no container waits for %v", reasons)
	}
}

// message wants the container to have left a message.
func message(want string) func(*agent, *corev1.Pod) error {
	return func(_ *agent, pod *corev1.Pod) error {
		for _, c := range pod.Status.ContainerStatuses {
			if t := c.State.Terminated; t != nil && strings.Contains(t.Message, want) {
				return nil
			}
		}
		return fmt.Errorf("no container has left the message %q", want)
	}
}

// prints wants lines in the first log of the container.
func prints(lines ...string) func(*agent, *corev1.Pod) error {
	return func(a *agent, pod *corev1.Pod) error {
		log, err := a.readLog(pod, 0)
		if err != nil {
			return err
		}
		text := strings.Join(log, "\n")
		for _, want := range lines {
			if !strings.Contains(text, want) {
				return fmt.Errorf("the log has no %q: %s", want, text)
			}
		}
		return nil
	}
}

func policy(p corev1.RestartPolicy) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.RestartPolicy = p }
}

// another returns a container beside the main one.
func another(name string, args ...string) corev1.Container {
	return corev1.Container{Name: name, Image: testnode.Life().Ref, Args: args}
}

func featuresOfLife() []feature {
	always := corev1.ContainerRestartPolicyAlways
	never := corev1.ContainerRestartPolicyNever
	return []feature{
		{name: "plain"},
		{name: "never-fails", args: []string{"-for", "100ms", "-exit", "3"}, edit: policy(corev1.RestartPolicyNever), want: phase(corev1.PodFailed, "")},
		{name: "never-ends", args: []string{"-for", "100ms"}, edit: policy(corev1.RestartPolicyNever), want: phase(corev1.PodSucceeded, "")},
		{name: "on-failure-ends", args: []string{"-for", "100ms"}, edit: policy(corev1.RestartPolicyOnFailure), want: phase(corev1.PodSucceeded, "")},
		{name: "on-failure-again", args: []string{"-for", "100ms", "-exit", "1"}, edit: policy(corev1.RestartPolicyOnFailure), want: restarted},
		{name: "crash-loop", args: []string{"-for", "100ms", "-exit", "1"}, want: waiting("CrashLoopBackOff")},
		{name: "restart-rule", args: []string{"-for", "100ms", "-exit", "42"}, edit: func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			mainOf(pod).RestartPolicy = &never
			mainOf(pod).RestartPolicyRules = []corev1.ContainerRestartRule{{
				Action:    corev1.ContainerRestartRuleActionRestart,
				ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42}},
			}}
		}, want: restarted},
		{name: "deadline", edit: func(pod *corev1.Pod) { pod.Spec.ActiveDeadlineSeconds = new(int64(2)) }, want: phase(corev1.PodFailed, "DeadlineExceeded")},
		{name: "init", edit: func(pod *corev1.Pod) {
			pod.Spec.InitContainers = []corev1.Container{another("first", "-for", "100ms"), another("second", "-for", "100ms")}
		}},
		{name: "init-fails", edit: func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			pod.Spec.InitContainers = []corev1.Container{another("first", "-for", "100ms", "-exit", "1")}
		}, want: phase(corev1.PodFailed, "")},
		{name: "sidecar", args: []string{"-for", "1s"}, edit: func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			side := another("side")
			side.RestartPolicy = &always
			pod.Spec.InitContainers = []corev1.Container{side}
		}, want: phase(corev1.PodSucceeded, "")},
		{name: "two-containers", edit: func(pod *corev1.Pod) { pod.Spec.Containers = append(pod.Spec.Containers, another("beside")) }},
		{name: "never-pull", edit: func(pod *corev1.Pod) {
			mainOf(pod).Image, mainOf(pod).ImagePullPolicy = "nodekit.test/nosuch:1", corev1.PullNever
		}, want: waiting("ErrImageNeverPull")},
		{name: "no-such-image", edit: func(pod *corev1.Pod) { mainOf(pod).Image = "registry.invalid/nosuch:1" }, want: waiting("ErrImagePull", "ImagePullBackOff")},
		{name: "no-such-command", edit: func(pod *corev1.Pod) { mainOf(pod).Command = []string{"/nosuch"} }, want: waiting("RunContainerError", "CreateContainerError", "CrashLoopBackOff")},
		{name: "post-start", edit: func(pod *corev1.Pod) {
			mainOf(pod).Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/life", "-for", "10ms"}}}}
		}},
		{name: "post-start-fails", edit: func(pod *corev1.Pod) {
			mainOf(pod).Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"/life", "-for", "10ms", "-exit", "1"}}}}
		}, want: waiting("PostStartHookError", "CrashLoopBackOff")},
	}
}

func featuresOfContent(a *agent) []feature {
	dir, volume := a.hostFolder("content")
	if err := os.WriteFile(dir+"/file", []byte("from the host"), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return []feature{
		{name: "env", args: []string{"-print-env"}, edit: func(pod *corev1.Pod) {
			mainOf(pod).Env = []corev1.EnvVar{
				{Name: "A", Value: "one"},
				{Name: "B", Value: "$(A)-$$(A)"},
				{Name: "NODE", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}},
				{Name: "IP", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}},
				{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}},
			}
			mainOf(pod).Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}
			mainOf(pod).Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
		}, want: prints("env A=one", "env B=one-$(A)", "env NODE="+testnode.NodeName, "env IP=", "env CPU=2")},
		{name: "host-path", args: []string{"-read", "/in/file"}, edit: func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{volume}
			mainOf(pod).VolumeMounts = []corev1.VolumeMount{{Name: volume.Name, MountPath: "/in", ReadOnly: true}}
		}, want: prints("read from the host")},
		{name: "empty-dir", args: []string{"-write", "/shared/file=x", "-read", "/shared/file"}, edit: func(pod *corev1.Pod) {
			pod.Spec.Volumes = []corev1.Volume{{Name: "shared", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			mainOf(pod).VolumeMounts = []corev1.VolumeMount{{Name: "shared", MountPath: "/shared"}}
		}, want: prints("read x")},
		{name: "aliases", args: []string{"-read", "/etc/hosts"}, edit: func(pod *corev1.Pod) {
			pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.7", Hostnames: []string{"seven.example"}}}
		}, want: prints("192.0.2.7\tseven.example")},
		{name: "dns", args: []string{"-read", "/etc/resolv.conf"}, edit: func(pod *corev1.Pod) {
			pod.Spec.DNSPolicy = corev1.DNSNone
			pod.Spec.DNSConfig = &corev1.PodDNSConfig{Nameservers: []string{"192.0.2.53"}, Searches: []string{"x.example"}}
		}, want: prints("nameserver 192.0.2.53", "search x.example")},
		{name: "hostname", args: []string{"-read", "/proc/sys/kernel/hostname"}, edit: func(pod *corev1.Pod) { pod.Spec.Hostname = "called" }, want: prints("read called")},
		{name: "message", args: []string{"-write", "/dev/termination-log=farewell", "-for", "100ms"}, edit: policy(corev1.RestartPolicyNever), want: message("farewell")},
		{name: "message-of-log", args: []string{"-for", "100ms", "-exit", "1"}, edit: func(pod *corev1.Pod) {
			pod.Spec.RestartPolicy = corev1.RestartPolicyNever
			mainOf(pod).TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
		}, want: message("start")},
		{name: "host-network", edit: func(pod *corev1.Pod) { pod.Spec.HostNetwork = true }, want: func(_ *agent, pod *corev1.Pod) error {
			if !ready(pod) || pod.Status.PodIP != pod.Status.HostIP {
				return errors.New("it is not ready at the node's address")
			}
			return nil
		}},
	}
}

func featuresOfSecurity() []feature {
	return []feature{
		{name: "user", args: []string{"-read", "/proc/self/status"}, edit: func(pod *corev1.Pod) {
			mainOf(pod).SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(1234)), RunAsGroup: new(int64(2345))}
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{SupplementalGroups: []int64{3456}}
		}, want: prints("1234\t1234", "2345\t2345", "3456")},
		{name: "no-capabilities", args: []string{"-read", "/proc/self/status"}, edit: func(pod *corev1.Pod) {
			mainOf(pod).SecurityContext = &corev1.SecurityContext{
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}, AllowPrivilegeEscalation: new(false),
			}
		}, want: prints("CapEff:\t0000000000000000", "NoNewPrivs:\t1")},
		{name: "read-only", args: []string{"-write", "/file=x"}, edit: func(pod *corev1.Pod) {
			mainOf(pod).SecurityContext = &corev1.SecurityContext{ReadOnlyRootFilesystem: new(true)}
		}, want: prints("read-only file system")},
		{name: "not-as-root", edit: func(pod *corev1.Pod) {
			mainOf(pod).SecurityContext = &corev1.SecurityContext{RunAsNonRoot: new(true)}
		}, want: waiting("CreateContainerConfigError")},
		{name: "shared-processes", args: []string{"-read", "/proc/1/cmdline"}, edit: func(pod *corev1.Pod) { pod.Spec.ShareProcessNamespace = new(true) }, want: prints("pause")},
		{name: "limits", edit: func(pod *corev1.Pod) {
			limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
			mainOf(pod).Resources = corev1.ResourceRequirements{Limits: limits} // requests are the same by default
		}, want: func(_ *agent, pod *corev1.Pod) error {
			if !ready(pod) || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
				return errors.New("it is not ready and Guaranteed")
			}
			return nil
		}},
	}
}

func featuresOfProbes() []feature {
	exec := func(code string) *corev1.Probe {
		return &corev1.Probe{
			PeriodSeconds: 1, FailureThreshold: 1,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"/life", "-for", "1ms", "-exit", code}}},
		}
	}
	return []feature{
		{name: "readiness", edit: func(pod *corev1.Pod) { mainOf(pod).ReadinessProbe = exec("0") }},
		{name: "unready", edit: func(pod *corev1.Pod) { mainOf(pod).ReadinessProbe = exec("1") }, want: func(_ *agent, pod *corev1.Pod) error {
			if pod.Status.Phase != corev1.PodRunning || ready(pod) {
				return errors.New("it does not run unready")
			}
			return nil
		}},
		{name: "liveness", edit: func(pod *corev1.Pod) {
			mainOf(pod).LivenessProbe = exec("1")
			pod.Spec.TerminationGracePeriodSeconds = new(int64(1))
		}, want: restarted},
		{name: "startup", edit: func(pod *corev1.Pod) { mainOf(pod).StartupProbe = exec("0") }},
	}
}
