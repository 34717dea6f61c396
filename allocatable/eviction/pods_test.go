package eviction_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/nodekit-go/nodekit/allocatable/eviction"
)

// podOf makes a pod with one container "main" that asks for the resources
// ("memory=100Mi ephemeral-storage=1Gi").
func podOf(name string, priority int32, requests string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Priority: &priority, Containers: []corev1.Container{{Name: "main"}}},
	}
	pod.Spec.Containers[0].Resources.Requests = list(requests)
	return pod
}

func list(s string) corev1.ResourceList {
	resources := corev1.ResourceList{}
	for word := range strings.FieldsSeq(s) {
		name, amount, _ := strings.Cut(word, "=")
		resources[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return resources
}

const mi = 1 << 20

func names(pods []*corev1.Pod) string {
	var out []string
	for _, pod := range pods {
		out = append(out, pod.Name)
	}
	return strings.Join(out, " ")
}

func TestRank(t *testing.T) {
	memory := func(n int64) eviction.Usage { return eviction.Usage{Memory: n} }
	written := func(rootfs, logs, volume int64) eviction.Usage {
		return eviction.Usage{
			Containers: []eviction.ContainerUsage{{Name: "main", Rootfs: eviction.Disk{Bytes: rootfs, Inodes: rootfs}, Logs: eviction.Disk{Bytes: logs, Inodes: logs}}},
			Volumes:    map[string]eviction.Disk{"scratch": {Bytes: volume, Inodes: volume}, "memory": {Bytes: 1 << 40, Inodes: 1 << 40}},
		}
	}
	scratch := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Volumes = []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		}
		return pod
	}
	tests := []struct {
		name   string
		signal eviction.Signal
		disks  eviction.Disks
		pods   []*corev1.Pod
		usages eviction.Usages
		want   string
	}{
		{
			name: "memory: over its request, then priority, then the surplus", signal: eviction.MemoryAvailable,
			pods: []*corev1.Pod{
				podOf("modest", 0, "memory=500Mi"), podOf("greedy-important", 10, "memory=100Mi"), podOf("greedy", 0, "memory=100Mi"),
				podOf("greediest", 0, "memory=100Mi"), podOf("unknown", 100, "memory=1Gi"),
			},
			usages: eviction.Usages{"modest": memory(400 * mi), "greedy-important": memory(900 * mi), "greedy": memory(200 * mi), "greediest": memory(300 * mi)},
			want:   "unknown greediest greedy greedy-important modest",
		},
		{
			name: "equal ones keep their order", signal: eviction.AllocatableMemoryAvailable,
			pods:   []*corev1.Pod{podOf("b", 0, ""), podOf("a", 0, ""), podOf("c", 0, "")},
			usages: eviction.Usages{"a": memory(1), "b": memory(1), "c": memory(1)}, want: "b a c",
		},
		{
			name: "process IDs: priority, then how many", signal: eviction.PIDAvailable,
			pods:   []*corev1.Pod{podOf("important", 5, ""), podOf("few", 1, ""), podOf("many", 1, "")},
			usages: eviction.Usages{"important": {Processes: 9000}, "few": {Processes: 1}, "many": {Processes: 100}}, want: "many few important",
		},
		{
			name: "process IDs: who was not measured is first among equals alone", signal: eviction.PIDAvailable,
			pods: []*corev1.Pod{
				podOf("unknown-important", 1000, ""), podOf("bomb", 0, ""), podOf("unknown", 0, ""), podOf("important", 1000, ""),
			},
			usages: eviction.Usages{"bomb": {Processes: 30000}, "important": {Processes: 50}}, want: "unknown bomb unknown-important important",
		},
		{
			name: "one disk: everything counts", signal: eviction.NodeFSAvailable,
			pods:   []*corev1.Pod{scratch(podOf("a", 0, "")), scratch(podOf("b", 0, "")), scratch(podOf("asked", 0, "ephemeral-storage=1Mi"))},
			usages: eviction.Usages{"a": written(1, 1, 1), "b": written(0, 0, 4), "asked": written(mi, 0, 0)}, want: "b a asked",
		},
		{
			name: "images apart: volumes and logs for nodefs", signal: eviction.NodeFSAvailable, disks: eviction.ImagesApart,
			pods:   []*corev1.Pod{scratch(podOf("a", 0, "")), scratch(podOf("b", 0, ""))},
			usages: eviction.Usages{"a": written(100, 1, 1), "b": written(0, 2, 2)}, want: "b a",
		},
		{
			name: "images apart: what containers wrote for imagefs", signal: eviction.ImageFSInodesFree, disks: eviction.ImagesApart,
			pods:   []*corev1.Pod{scratch(podOf("a", 0, "")), scratch(podOf("b", 0, ""))},
			usages: eviction.Usages{"a": written(1, 9, 9), "b": written(2, 0, 0)}, want: "b a",
		},
		{
			name: "images alone: no pod takes of them, priority decides", signal: eviction.ImageFSAvailable, disks: eviction.ImagesSplit,
			pods:   []*corev1.Pod{scratch(podOf("a", 9, "")), scratch(podOf("b", 1, ""))},
			usages: eviction.Usages{"a": written(9, 9, 9), "b": written(0, 0, 0)}, want: "b a",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := names(tt.pods)
			if got := names(eviction.Rank(tt.signal, tt.disks, tt.pods, tt.usages)); got != tt.want {
				t.Errorf("ranked %s, want %s", got, tt.want)
			}
			if names(tt.pods) != before {
				t.Error("the pods handed in were moved")
			}
		})
	}
}

func TestRankDoesNotDependOnTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		usages := eviction.Usages{}
		var pods []*corev1.Pod
		for i := range rapid.IntRange(0, 12).Draw(t, "pods") {
			pod := podOf(string(rune('a'+i)), rapid.Int32Range(-1, 1).Draw(t, "priority"), "memory="+rapid.SampledFrom([]string{"0", "1", "2"}).Draw(t, "request"))
			if rapid.Bool().Draw(t, "measured") {
				usages[pod.Name] = eviction.Usage{Memory: rapid.Int64Range(0, 3).Draw(t, "memory") + int64(i)*10}
			}
			pods = append(pods, pod)
		}
		signal := rapid.SampledFrom([]eviction.Signal{eviction.MemoryAvailable, eviction.NodeFSAvailable, eviction.PIDAvailable}).Draw(t, "signal")
		ranked := eviction.Rank(signal, eviction.OneDisk, pods, usages)
		if again := eviction.Rank(signal, eviction.OneDisk, ranked, usages); names(again) != names(ranked) {
			t.Errorf("ranked %s, and ranked again %s", names(ranked), names(again))
		}
		seen := map[string]bool{}
		for _, pod := range ranked {
			seen[pod.Name] = true
		}
		if len(seen) != len(pods) {
			t.Errorf("%d pods became %d", len(pods), len(seen))
		}
	})
}

func TestIsCritical(t *testing.T) {
	annotated := func(key, value string) *corev1.Pod {
		pod := podOf("p", 0, "")
		pod.Annotations = map[string]string{key: value}
		return pod
	}
	tests := []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"ordinary", podOf("p", 1_999_999_999, ""), false},
		{"critical priority", podOf("p", 2_000_000_000, ""), true},
		{"no priority", &corev1.Pod{}, false},
		{"static", annotated("kubernetes.io/config.source", "file"), true},
		{"from the API", annotated("kubernetes.io/config.source", "api"), false},
		{"mirror", annotated("kubernetes.io/config.mirror", "x"), true},
	}
	for _, tt := range tests {
		if got := eviction.IsCritical(tt.pod); got != tt.want {
			t.Errorf("%s: critical is %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestOverLimit(t *testing.T) {
	limited := func(name, limits string) *corev1.Pod {
		pod := podOf(name, 0, "")
		pod.Spec.Containers[0].Resources.Limits = list(limits)
		return pod
	}
	withVolume := func(medium corev1.StorageMedium, size string) *corev1.Pod {
		pod := podOf("p", 0, "")
		v := &corev1.EmptyDirVolumeSource{Medium: medium}
		if size != "" {
			limit := resource.MustParse(size)
			v.SizeLimit = &limit
		}
		pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: v}}}
		return pod
	}
	sidecar := limited("p", "")
	always := corev1.ContainerRestartPolicyAlways
	sidecar.Spec.InitContainers = []corev1.Container{
		{Name: "once", Resources: corev1.ResourceRequirements{Limits: list("ephemeral-storage=1Mi")}},
		{Name: "proxy", RestartPolicy: &always, Resources: corev1.ResourceRequirements{Limits: list("ephemeral-storage=1Mi")}},
	}
	uses := func(container string, rootfs, logs int64) eviction.Usage {
		return eviction.Usage{Containers: []eviction.ContainerUsage{{Name: container, Rootfs: eviction.Disk{Bytes: rootfs}, Logs: eviction.Disk{Bytes: logs}}}}
	}
	volume := func(n int64) eviction.Usage {
		return eviction.Usage{Volumes: map[string]eviction.Disk{"v": {Bytes: n}}}
	}
	tests := []struct {
		name           string
		pod            *corev1.Pod
		usage          eviction.Usage
		disks          eviction.Disks
		limit, message string
	}{
		{name: "nothing is limited", pod: podOf("p", 0, ""), usage: uses("main", 1<<40, 1<<40)},
		{name: "a volume just fits", pod: withVolume("", "1Mi"), usage: volume(mi)},
		{
			name: "a volume too large", pod: withVolume("", "1Mi"), usage: volume(mi + 1),
			limit: eviction.EmptyDirLimit, message: `Usage of EmptyDir volume "v" exceeds the limit "1Mi". `,
		},
		{name: "a volume in memory is held by the kernel", pod: withVolume("Memory", "1Mi"), usage: volume(mi + 1)},
		{name: "a volume without limit", pod: withVolume("", ""), usage: volume(1 << 40)},
		{
			name: "a container too large", pod: limited("p", "ephemeral-storage=1Mi"), usage: uses("main", mi, 1),
			limit: eviction.PodLimit, message: "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. ",
		},
		{
			name: "only one container is too large", usage: uses("proxy", mi, 1),
			pod: func() *corev1.Pod {
				p := sidecar.DeepCopy()
				p.Spec.Containers[0].Resources.Limits = list("ephemeral-storage=1Gi")
				return p
			}(),
			limit: eviction.ContainerLimit, message: `Container proxy exceeded its local ephemeral storage limit "1Mi". `,
		},
		{
			name: "an init container that ends has no limit of its own", usage: uses("once", mi, 1),
			pod: func() *corev1.Pod {
				p := sidecar.DeepCopy()
				p.Spec.Containers[0].Resources.Limits = list("ephemeral-storage=1Gi")
				return p
			}(),
		},
		{
			name: "images apart: logs alone are the container's", disks: eviction.ImagesApart, usage: uses("proxy", mi, 1),
			pod: func() *corev1.Pod {
				p := sidecar.DeepCopy()
				p.Spec.Containers[0].Resources.Limits = list("ephemeral-storage=1Gi")
				return p
			}(),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limit, message := eviction.OverLimit(tt.disks, tt.pod, tt.usage)
			if limit != tt.limit || message != tt.message {
				t.Errorf("got %q: %q, want %q: %q", limit, message, tt.limit, tt.message)
			}
		})
	}
}

func TestMessage(t *testing.T) {
	pod := podOf("web", 0, "memory=100Mi ephemeral-storage=1Gi")
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "idle"})
	whole := pod.DeepCopy()
	whole.Spec.Resources = &corev1.ResourceRequirements{Requests: list("memory=150Mi")}
	usage := &eviction.Usage{Memory: 260 * mi, Containers: []eviction.ContainerUsage{
		{Name: "main", Memory: 250 * mi, Rootfs: eviction.Disk{Bytes: 1 << 30}, Logs: eviction.Disk{Bytes: mi}}, {Name: "gone", Memory: 1 << 40},
	}}
	memory := left(t, "91Mi/4Gi", time.Time{})
	tests := []struct {
		name      string
		threshold eviction.Threshold
		pod       *corev1.Pod
		usage     *eviction.Usage
		want      string
		blamed    string
	}{
		{
			name: "memory", threshold: hard(t, eviction.MemoryAvailable, "100Mi"), pod: pod, usage: usage, blamed: "main",
			want: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 91Mi. Container main was using 250Mi, request is 100Mi, has larger consumption of memory. ",
		},
		{
			name: "memory of the whole pod", threshold: hard(t, eviction.MemoryAvailable, "100Mi"), pod: whole, usage: usage, blamed: "main",
			want: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 91Mi. Pod web was using 260Mi, request is 150Mi, has larger consumption of memory. Container main was using 250Mi, request is 100Mi, has larger consumption of memory. ",
		},
		{
			name: "disk", threshold: hard(t, eviction.NodeFSAvailable, "10%"), pod: pod, usage: usage, blamed: "main",
			want: "The node was low on resource: ephemeral-storage. Threshold quantity: 429496729, available: 91Mi. Container main was using 1025Mi, request is 1Gi, has larger consumption of ephemeral-storage. ",
		},
		{
			name: "inodes are nobody's", threshold: hard(t, eviction.NodeFSInodesFree, "100"), pod: pod, usage: usage,
			want: "The node was low on resource: inodes. Threshold quantity: 100, available: 91Mi. ",
		},
		{
			name: "not measured", threshold: hard(t, eviction.MemoryAvailable, "100Mi"), pod: pod,
			want: "The node was low on resource: memory. Threshold quantity: 100Mi, available: 91Mi. ",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			message, annotations := eviction.Message(tt.threshold, memory, tt.pod, tt.usage)
			if diff := cmp.Diff(tt.want, message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if got := annotations[eviction.AnnotationOffendingContainers]; got != tt.blamed {
				t.Errorf("blamed is %q, want %q", got, tt.blamed)
			}
			if got := annotations[eviction.AnnotationStarvedResource]; got != string(tt.threshold.Signal.Resource()) {
				t.Errorf("starved is %q", got)
			}
		})
	}
}
