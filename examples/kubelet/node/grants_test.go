package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable"
	"github.com/nodekit-go/nodekit/allocatable/capacity"
	"github.com/nodekit-go/nodekit/allocatable/cgroups"
	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podstatus"
	"github.com/nodekit-go/nodekit/podworker/userns"
)

func TestGrants(t *testing.T) {
	no, kata, none := false, "kata", "none"
	enabled := corev1.RecursiveReadOnlyEnabled
	able := []*runtimeapi.RuntimeHandler{
		{Name: "", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
		{Name: "kata-v3", Features: &runtimeapi.RuntimeHandlerFeatures{}},
	}
	class := func(_ context.Context, name string) (string, error) {
		if name != kata {
			return "", fmt.Errorf("RuntimeClass %q not found", name)
		}
		return "kata-v3", nil
	}
	tests := []struct {
		name     string
		edit     func(*corev1.PodSpec)
		handlers []*runtimeapi.RuntimeHandler
		down     error
		want     podspec.Grant
		fails    string
	}{
		{name: "nothing asked for, the runtime is not asked", down: errors.New("down")},
		{name: "class", edit: func(s *corev1.PodSpec) { s.RuntimeClassName = &kata }, want: podspec.Grant{Handler: podspec.Handler{Name: "kata-v3"}}},
		{name: "unknown class", edit: func(s *corev1.PodSpec) { s.RuntimeClassName = &none }, fails: `RuntimeClass "none" not found`},
		{
			name: "read-only mounts", handlers: able,
			edit: func(s *corev1.PodSpec) {
				s.Containers[0].VolumeMounts = []corev1.VolumeMount{{ReadOnly: true, RecursiveReadOnly: &enabled}}
			},
			want: podspec.Grant{Handler: podspec.Handler{RecursiveReadOnly: true, UserNamespaces: true}},
		},
		{
			name: "users", handlers: able, edit: func(s *corev1.PodSpec) { s.HostUsers = &no },
			want: podspec.Grant{Handler: podspec.Handler{RecursiveReadOnly: true, UserNamespaces: true}, Users: &podspec.UserNamespace{First: 65536, Length: 65536}},
		},
		{name: "users, an old runtime", edit: func(s *corev1.PodSpec) { s.HostUsers = &no }, fails: "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		{name: "users, another handler", handlers: able, edit: func(s *corev1.PodSpec) { s.HostUsers, s.RuntimeClassName = &no, &kata }, fails: "can't set `spec.hostUsers: false`, runtime does not support user namespaces"},
		{name: "users, the runtime is down", down: errors.New("down"), edit: func(s *corev1.PodSpec) { s.HostUsers = &no }, fails: "ask the runtime for its handlers: down"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			users, err := userns.New(userns.Config{Pods: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			g := &grants{users: users, class: class, handlers: func(context.Context) ([]*runtimeapi.RuntimeHandler, error) { return tt.handlers, tt.down }}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
			if tt.edit != nil {
				tt.edit(&pod.Spec)
			}
			got, err := g.of(t.Context(), pod)
			if tt.fails != "" {
				if fmt.Sprint(err) != tt.fails {
					t.Errorf("error is %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("grant (-want +got):\n%s", diff)
			}
		})
	}
}

// TestServicesAreWaitedFor by pods of the API server, not by those of manifests, which
// run without it.
func TestServicesAreWaitedFor(t *testing.T) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "http://192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServices(client, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ofAPI, static := &corev1.Pod{}, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/config.source": "file"}}}
	if _, err := s.list(ofAPI); !errors.Is(err, errNoServicesYet) {
		t.Errorf("error is %v, want %v", err, errNoServicesYet)
	}
	if list, err := s.list(static); err != nil || len(list) > 0 {
		t.Errorf("a static pod gets %v (%v), want none", list, err)
	}
	if list, err := (*services)(nil).list(ofAPI); err != nil || list != nil {
		t.Errorf("without an API server the Services are %v (%v), want none", list, err)
	}
}

// TestCgroupsHaveOneName: the runtime is told the same cgroup that the node makes.
func TestCgroupsHaveOneName(t *testing.T) {
	mounts := []cgroups.Mount{{Path: "/none", V2: true, Controllers: []string{"memory"}}}
	list := func(cpu string) corev1.ResourceRequirements {
		l := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("1Gi")}
		return corev1.ResourceRequirements{Requests: l}
	}
	guaranteed := list("1")
	guaranteed.Limits = guaranteed.Requests
	for _, root := range []string{"", "/", "/a/b", "a/"} {
		tree, err := cgroups.New(cgroups.Config{Mounts: mounts, Root: root, Class: podstatus.QOSClass})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []corev1.ResourceRequirements{{}, list("1"), guaranteed} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: r}}}}
			if got, want := tree.Parent(pod), (podspec.Cgroups{Root: root}).Parent(pod.UID, podstatus.QOSClass(pod)); got != want {
				t.Errorf("root %q: the node makes %s, the runtime is told %s", root, got, want)
			}
		}
	}
}

func TestDescribeMachine(t *testing.T) {
	factor, single := 0.5, true
	r := &resources{
		machine: capacity.Machine{Swap: 1 << 30, HugePages: []capacity.HugePages{{Size: 2 << 20}}, Cgroups: capacity.Cgroups{Mode: capacity.CgroupV2, Unified: t.TempDir()}},
		Result:  allocatable.Result{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("1")}},
	}
	k := &kubeletconfig.KubeletConfiguration{
		SingleProcessOOMKill: &single, MemoryThrottlingFactor: &factor, MemoryReservationPolicy: kubeletconfig.TieredReservationMemoryReservationPolicy,
		MemorySwap: kubeletconfig.MemorySwapConfiguration{SwapBehavior: "LimitedSwap"},
	}
	var got podspec.Node
	describeMachine(&got, nil, k) // before the machine was read
	describeMachine(&got, r, k)
	want := podspec.Node{
		Allocatable: r.Allocatable,
		Limits:      podspec.Limits{CgroupV2: true, SingleProcessOOMKill: true, Swap: 1 << 30, ReserveMemory: true, Throttling: 0.5, HugePages: []int64{2 << 20}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}
