package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func TestSecurityContext(t *testing.T) {
	yes, no := true, false
	uid, gid, root := int64(1000), int64(2000), int64(0)
	unconfined := &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	tests := []struct {
		name  string
		pod   *corev1.PodSecurityContext
		app   *corev1.SecurityContext
		image podspec.User
		edit  func(*podspec.Node)
		want  *runtimeapi.LinuxContainerSecurityContext
	}{
		{name: "none", want: &runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{}, Seccomp: unconfined}},
		{
			name: "user of the image", image: podspec.User{UID: &uid},
			want: &runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{Value: 1000}, Seccomp: unconfined},
		},
		{
			name: "name of the image", image: podspec.User{Name: "www"},
			want: &runtimeapi.LinuxContainerSecurityContext{RunAsUsername: "www", Seccomp: unconfined},
		},
		{
			name: "container over pod",
			pod:  &corev1.PodSecurityContext{RunAsUser: &root, RunAsGroup: &gid, SupplementalGroups: []int64{7}, SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}},
			app:  &corev1.SecurityContext{RunAsUser: &uid, ReadOnlyRootFilesystem: &yes, AllowPrivilegeEscalation: &no},
			want: &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser: &runtimeapi.Int64Value{Value: 1000}, RunAsGroup: &runtimeapi.Int64Value{Value: 2000}, SupplementalGroups: []int64{7},
				ReadonlyRootfs: true, NoNewPrivs: true, Seccomp: &runtimeapi.SecurityProfile{},
			},
		},
		{
			name: "privileged", app: &corev1.SecurityContext{Privileged: &yes, AllowPrivilegeEscalation: &yes, Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}, Drop: []corev1.Capability{"ALL"}}},
			want: &runtimeapi.LinuxContainerSecurityContext{
				Privileged: true, RunAsUser: &runtimeapi.Int64Value{}, Seccomp: unconfined,
				Capabilities: &runtimeapi.Capability{AddCapabilities: []string{"NET_ADMIN"}, DropCapabilities: []string{"ALL"}},
			},
		},
		{
			name: "seccomp by default", edit: func(n *podspec.Node) { n.SeccompDefault = true },
			want: &runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{}, Seccomp: &runtimeapi.SecurityProfile{}},
		},
		{
			name: "unconfined although not by default", edit: func(n *podspec.Node) { n.SeccompDefault = true },
			app:  &corev1.SecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Unconfined"}},
			want: &runtimeapi.LinuxContainerSecurityContext{RunAsUser: &runtimeapi.Int64Value{}, Seccomp: unconfined},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node()
			if tt.edit != nil {
				tt.edit(n)
			}
			pod := web(onApp(func(c *corev1.Container) { c.SecurityContext = tt.app }))
			pod.Spec.SecurityContext = tt.pod
			got := config(t, pod, n, podspec.Run{ImageUser: tt.image}).Config.GetLinux().GetSecurityContext()
			ignore := protocmp.IgnoreFields(&runtimeapi.LinuxContainerSecurityContext{}, "masked_paths", "readonly_paths", "namespace_options")
			if diff := cmp.Diff(tt.want, got, protocmp.Transform(), ignore); diff != "" {
				t.Errorf("security context (-want +got):\n%s", diff)
			}
			if len(got.GetMaskedPaths()) == 0 || len(got.GetReadonlyPaths()) == 0 {
				t.Error("nothing of /proc is masked")
			}
		})
	}
}

func TestRunAsNonRoot(t *testing.T) {
	yes := true
	uid, root := int64(1000), int64(0)
	tests := []struct {
		name  string
		user  *int64
		image podspec.User
		want  string
	}{
		{name: "user", user: &uid},
		{name: "root", user: &root, want: "container's runAsUser breaks non-root policy"},
		{name: "image user", image: podspec.User{UID: &uid}},
		{name: "image root", image: podspec.User{UID: &root}, want: "container has runAsNonRoot and image will run as root"},
		{name: "image without user", want: "container has runAsNonRoot and image will run as root"},
		{name: "image name", image: podspec.User{Name: "www"}, want: "container has runAsNonRoot and image has non-numeric user (www), cannot verify user is non-root"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web()
			pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: tt.user}
			_, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{ImageUser: tt.image})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want {
				t.Errorf("error is %q, want %q", got, tt.want)
			}
		})
	}
}
