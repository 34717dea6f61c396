package support_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/allocatable/eviction"
	"github.com/nodekit-go/nodekit/podworker/admission"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/podsync"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/grpc"
)

// observer is a part of a node that looks at pods.
type observer struct {
	// name says what of a pod's life it decides.
	name string
	// of returns what the part makes of a pod, as text: the same for the same pod.
	of func(pod *corev1.Pod) string
}

// observers are the parts that are pure functions of the pod and of what is around it.
var observers = []observer{
	{"admission", admitted},
	{"sandbox", sandbox},
	{"containers", containers},
	{"cgroup", cgroup},
	{"probes", probed},
	{"plan", planned},
	{"status", shown},
	{"eviction", evicted},
}

// abilities are those of the example kubelet on a node that has everything.
const abilities = ^podspec.Ability(0)

// problems are what podspec says of a pod on a node that has everything.
func problems(pod *corev1.Pod) []podspec.Problem {
	return podspec.Check(pod, podspec.Options{Can: abilities})
}

var node = &podspec.Node{
	Name: "node-a", IPs: []string{"198.51.100.10"}, Root: "/root", Logs: "/logs", Instance: "agent-1", Memory: 8 << 30, SELinux: true,
	DNS: podspec.DNS{ClusterDNS: []string{"10.96.0.10"}, ClusterDomain: "cluster.local", Host: podspec.Resolver{Servers: []string{"192.0.2.53"}}},
	Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"),
	},
}

// text is anything as text.
func text(v any, err error) string {
	if err != nil {
		return "error: " + err.Error()
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprintf("%+v", v)
	}
	return string(b)
}

func sandbox(pod *corev1.Pod) string {
	spec, err := podspec.Sandbox(pod, node, podspec.SandboxRun{})
	if err != nil {
		return text(nil, err)
	}
	maps.DeleteFunc(spec.Config.Annotations, isRecord)
	return protojson.Format(spec.Config) + text(spec.Paths, nil) + text(spec.Cuts, nil)
}

// isRecord reports whether an annotation is a note that the agent leaves for itself, which
// a field may be part of without having an effect.
func isRecord(key, _ string) bool {
	return strings.HasPrefix(key, "io.kubernetes.") || strings.HasPrefix(key, "io.nodekit.")
}

// containers is what the runtime is asked to create. Images with a user who is root, and
// with one who is not, make a difference to some pods.
func containers(pod *corev1.Pod) string {
	var out strings.Builder
	for c := range allContainers(pod) {
		for _, uid := range []int64{0, 1000} {
			run := podspec.Run{
				PodIPs: []string{podIP}, ImageUser: podspec.User{UID: &uid}, MessageFile: "message",
				Volumes: map[string]podspec.Volume{}, Images: map[string]string{}, References: references,
			}
			for i := range pod.Spec.Volumes {
				v := &pod.Spec.Volumes[i]
				if v.Image != nil {
					run.Images[v.Name] = "sha256:" + v.Image.Reference
					continue
				}
				run.Volumes[v.Name] = podspec.Volume{Path: "/volumes/" + v.Name, Relabel: true, Block: v.PersistentVolumeClaim != nil}
			}
			if target := targetOf(pod, c.Name); target != "" {
				run.Target = "id-" + target
			}
			spec, err := podspec.Container(pod, c, node, run)
			if err != nil {
				out.WriteString(text(nil, err))
				continue
			}
			maps.DeleteFunc(spec.Config.Annotations, isRecord)
			out.WriteString(protojson.Format(spec.Config) + text(spec.Paths, nil))
		}
	}
	return out.String()
}

func targetOf(pod *corev1.Pod, name string) string {
	for i := range pod.Spec.EphemeralContainers {
		if e := &pod.Spec.EphemeralContainers[i]; e.Name == name {
			return e.TargetContainerName
		}
	}
	return ""
}

// allContainers yields all containers of a pod.
func allContainers(pod *corev1.Pod) func(yield func(*corev1.Container) bool) {
	return func(yield func(*corev1.Container) bool) {
		for i := range pod.Spec.InitContainers {
			if !yield(&pod.Spec.InitContainers[i]) {
				return
			}
		}
		for i := range pod.Spec.Containers {
			if !yield(&pod.Spec.Containers[i]) {
				return
			}
		}
		for i := range pod.Spec.EphemeralContainers {
			c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
			if !yield(&c) {
				return
			}
		}
	}
}

const podIP = "10.88.0.2"

// references are what variables of pods refer to.
var references = podspec.References{
	Objects: things{}, Files: things{},
	Services: []*corev1.Service{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"},
		Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 5432}}},
	}},
}

// things has the ConfigMap settings, the Secret passwords, and the file env.
type things struct{}

func (things) ConfigMap(_, name string) (*corev1.ConfigMap, error) {
	if name != "settings" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &corev1.ConfigMap{Data: map[string]string{"color": "red", "size": "small"}}, nil
}

func (things) Secret(_, name string) (*corev1.Secret, error) {
	if name != "passwords" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &corev1.Secret{Data: map[string][]byte{"db": []byte("open sesame"), "web": []byte("please")}}, nil
}

func (things) ReadFile(dir, name string) ([]byte, error) {
	if dir != "/volumes/vars" || name != "env" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "files"}, name)
	}
	return []byte("TOKEN='abc'\n"), nil
}

// admitted is what nodes say that differ from each other: one that fits, one that is
// small and full, one that is broken, and one with another system.
func admitted(pod *corev1.Pod) string {
	other := plain()
	other.Name, other.UID, other.Spec.Priority = "other", "uid-other", new(int32(5))
	other.Spec.Containers[0].Ports = []corev1.ContainerPort{
		{ContainerPort: 80, HostPort: 9090, HostIP: "127.0.0.1", Protocol: corev1.ProtocolUDP},
		{ContainerPort: 81, HostPort: 9090, HostIP: "127.0.0.2", Protocol: corev1.ProtocolTCP},
	}
	var out []string
	for _, place := range machines() {
		for _, active := range [][]*corev1.Pod{nil, {other}} {
			d := admission.Admit(pod, active, admission.Node{Node: place, AppArmor: place.Name != "small"})
			out = append(out, fmt.Sprintf("%s: %s %s, %d victims", d.Verdict, d.Reason, d.Message, len(d.Victims)))
		}
	}
	return strings.Join(out, "\n")
}

func machines() []*corev1.Node {
	machine := func(cpu, memory string, edit func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-a", Labels: map[string]string{"disk": "ssd", "zone": "a"}},
			Status: corev1.NodeStatus{
				NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "linux"},
				Features: &corev1.NodeFeatures{SupplementalGroupsPolicy: new(true)},
				Allocatable: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
					corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
				},
			},
		}
		edit(n)
		return n
	}
	taint := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute}}
		}
	}
	return []*corev1.Node{
		machine("4", "8Gi", func(*corev1.Node) {}),
		machine("4", "8Gi", taint("broken", "disk")),
		machine("4", "8Gi", taint("broken", "fan")),
		machine("4", "8Gi", taint("old", "very")),
		machine("4", "8Gi", taint("full", "yes")),
		machine("1", "1Gi", func(n *corev1.Node) { n.Name = "small" }),
		machine("4", "8Gi", func(n *corev1.Node) { n.Labels["zone"], n.Labels["gone"] = "b", "yes" }),
		machine("4", "8Gi", func(n *corev1.Node) { delete(n.Labels, "disk") }),
		machine("4", "8Gi", func(n *corev1.Node) { n.Labels["zone"] = "c" }),
		machine("4", "8Gi", func(n *corev1.Node) { n.Status.NodeInfo.OperatingSystem = "windows" }),
	}
}

func cgroup(pod *corev1.Pod) string {
	class := podstatus.QOSClass(pod)
	return text(cgroups.LimitsOf(pod, class, cgroups.Rules{}), nil)
}

// running is a pod whose containers all run.
func running(pod *corev1.Pod) *corev1.Pod {
	p := pod.DeepCopy()
	p.Status.PodIP, p.Status.PodIPs = podIP, []corev1.PodIP{{IP: podIP}}
	for c := range allContainers(p) {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, ContainerID: "runtime://id-" + c.Name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	p.Status.InitContainerStatuses = p.Status.ContainerStatuses
	return p
}

func probed(pod *corev1.Pod) string {
	list, err := probes.FromPod(running(pod), probes.PodConfig{Clients: probes.Clients{GRPC: grpc.New, Exec: probes.ExecIn(nil)}})
	if err != nil {
		return text(nil, err)
	}
	var out strings.Builder
	for _, c := range list {
		for kind, p := range map[string]*probes.Probe{"startup": c.Startup, "liveness": c.Liveness, "readiness": c.Readiness} {
			if p == nil {
				continue
			}
			fmt.Fprintf(&out, "%s %s %T %+v %+v", c.Ref.Name, kind, p.Prober, p.Prober, p.Schedule)
			if p.Grace != nil {
				fmt.Fprintf(&out, " %s", *p.Grace)
			}
			out.WriteByte('\n')
		}
	}
	return sorted(out.String())
}

func sorted(lines string) string {
	list := strings.Split(lines, "\n")
	slices.Sort(list)
	return strings.Join(list, "\n")
}

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// firstFails is the exit code of init containers before anything else has run.
const firstFails = 7

// worlds are states in which a runtime may have a pod.
func worlds(pod *corev1.Pod) []*podstatus.Observed {
	out := []*podstatus.Observed{{}}
	box := podstatus.Sandbox{ID: "box", Ready: true, HostNetwork: pod.Spec.HostNetwork, NetworkKnown: true, IPs: []string{podIP}, Owner: "agent-1", CreatedAt: now.Add(-time.Hour)}
	if pod.Spec.HostNetwork {
		box.IPs = nil
	}
	out = append(out, &podstatus.Observed{Sandboxes: []podstatus.Sandbox{box}})
	for _, code := range []int32{-1, 0, 1, 3, 42, firstFails} { // -1: all run
		o := &podstatus.Observed{Sandboxes: []podstatus.Sandbox{box}}
		for c := range allContainers(pod) {
			i := podstatus.Instance{
				Name: c.Name, ID: "id-" + c.Name, SandboxID: "box", State: podstatus.StateRunning, Hash: podspec.ContainerHash(c), Image: c.Image,
				CreatedAt: now.Add(-time.Hour), StartedAt: now.Add(-time.Hour), RecursiveReadOnly: true,
			}
			if code == firstFails && !isInit(pod, c) {
				continue
			}
			done := isInit(pod, c) && !podstatus.IsSidecar(c)
			if done || code >= 0 && !podstatus.IsSidecar(c) {
				i.State, i.FinishedAt = podstatus.StateExited, now.Add(-time.Minute)
				i.ExitCode = max(code, 0)
				if done && code != firstFails {
					i.ExitCode = 0
				}
			}
			o.Containers = append(o.Containers, i)
		}
		o.Sort()
		out = append(out, o)
	}
	return out
}

func isInit(pod *corev1.Pod, c *corev1.Container) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(i corev1.Container) bool { return i.Name == c.Name })
}

// none is no kind of probes.
const none = podstatus.Readiness + 1

// failing has the result of every probe: Failure of one kind, else Success.
type failing podstatus.Probe

func (f failing) ProbeResult(_ string, kind podstatus.Probe) podstatus.Result {
	if kind == podstatus.Probe(f) {
		return podstatus.Failure
	}
	return podstatus.Success
}

// planned is what podsync does about the pod in each world, and when its resources change.
func planned(pod *corev1.Pod) string {
	var out strings.Builder
	for _, seen := range worlds(pod) {
		for _, prober := range []podstatus.Prober{nil, failing(podstatus.Liveness), failing(podstatus.Startup)} {
			out.WriteString(text(podsync.Plan(pod, seen, podsync.Inputs{Now: now, Prober: prober}), nil) + "\n")
		}
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			had := map[string]corev1.ResourceRequirements{}
			for c := range allContainers(pod) {
				r := c.Resources.DeepCopy()
				if r.Limits != nil {
					r.Limits[name] = resource.MustParse("1Gi")
				}
				had["id-"+c.Name] = *r
			}
			out.WriteString(text(podsync.Plan(pod, seen, podsync.Inputs{Now: now, Actuated: had}), nil) + "\n")
		}
	}
	return out.String()
}

func shown(pod *corev1.Pod) string {
	var out strings.Builder
	for _, seen := range worlds(pod) {
		for _, prober := range []podstatus.Prober{failing(none), failing(podstatus.Readiness), failing(podstatus.Startup)} {
			out.WriteString(text(podstatus.Compute(podstatus.Input{
				Pod: pod, Observed: seen, Prober: prober, RuntimeName: "runtime", HostIPs: node.IPs, Now: now, RecursiveReadOnly: true,
			}), nil) + "\n")
		}
	}
	return out.String()
}

// evicted is when the pod goes before one of another priority, and what is over its limits.
func evicted(pod *corev1.Pod) string {
	other := plain()
	other.Name, other.UID, other.Spec.Priority = "other", "uid-other", new(int32(5))
	usage := eviction.Usage{Memory: 3 << 30, Volumes: map[string]eviction.Disk{}}
	for i := range pod.Spec.Volumes {
		usage.Volumes[pod.Spec.Volumes[i].Name] = eviction.Disk{Bytes: 5 << 30}
	}
	for c := range allContainers(pod) {
		usage.Containers = append(usage.Containers, eviction.ContainerUsage{Name: c.Name, Logs: eviction.Disk{Bytes: 6 << 30}})
	}
	usages := eviction.Usages{string(pod.UID): usage, string(other.UID): usage}
	var out []string
	for _, p := range eviction.Rank(eviction.MemoryAvailable, eviction.OneDisk, []*corev1.Pod{pod, other}, usages) {
		out = append(out, p.Name)
	}
	limit, message := eviction.OverLimit(eviction.OneDisk, pod, usage)
	return strings.Join(append(out, limit, message), "\n")
}
