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

//nolint:staticcheck // the deprecated text goes along for older runtimes
func TestProfiles(t *testing.T) {
	file, none, up := "profiles/a.json", "", "../../etc/shadow"
	pod, own := "pod-profile", "own-profile"
	localhost := func(p *string) *corev1.SeccompProfile {
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: p}
	}
	appArmor := func(p *string) *corev1.AppArmorProfile {
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: p}
	}
	tests := []struct {
		name       string
		pod        corev1.PodSecurityContext
		app        corev1.SecurityContext
		annotation string
		want       *runtimeapi.LinuxContainerSecurityContext
		fails      string
	}{
		{
			name: "seccomp from a file", app: corev1.SecurityContext{SeccompProfile: localhost(&file)},
			want: &runtimeapi.LinuxContainerSecurityContext{Seccomp: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "/var/lib/kubelet/seccomp/profiles/a.json"}},
		},
		{name: "seccomp from no file", app: corev1.SecurityContext{SeccompProfile: localhost(&none)}, fails: "localhostProfile must be set if seccompProfile type is Localhost."},
		{name: "seccomp from elsewhere", app: corev1.SecurityContext{SeccompProfile: localhost(&up)}, fails: `seccomp profile "../../etc/shadow" leads out of the directory of profiles`},
		{
			name: "AppArmor, container over pod", pod: corev1.PodSecurityContext{AppArmorProfile: appArmor(&pod)}, app: corev1.SecurityContext{AppArmorProfile: appArmor(&own)},
			want: &runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: own}, ApparmorProfile: "localhost/own-profile"},
		},
		{
			name: "AppArmor, the annotation of the container over the pod", pod: corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}}, annotation: "localhost/old",
			want: &runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "old"}, ApparmorProfile: "localhost/old"},
		},
		{
			name: "AppArmor, the field of the container over its annotation", app: corev1.SecurityContext{AppArmorProfile: appArmor(&own)}, annotation: "localhost/old",
			want: &runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: own}, ApparmorProfile: "localhost/own-profile"},
		},
		{
			name: "AppArmor of the pod", pod: corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}},
			want: &runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{}, ApparmorProfile: "runtime/default"},
		},
		{
			name: "AppArmor by annotation", annotation: "localhost/old",
			want: &runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: "old"}, ApparmorProfile: "localhost/old"},
		},
		{name: "AppArmor unconfined", annotation: "unconfined", want: &runtimeapi.LinuxContainerSecurityContext{Apparmor: &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, ApparmorProfile: "unconfined"}},
		{name: "AppArmor nobody knows", annotation: "strict", fails: `unknown apparmor profile type: "strict"`},
		{name: "AppArmor without a name", app: corev1.SecurityContext{AppArmorProfile: appArmor(&none)}, fails: "missing localhost apparmor profile name"},
		{
			name: "SELinux, container over pod", pod: corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c1", Type: "t"}}, app: corev1.SecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0:c2"}},
			want: &runtimeapi.LinuxContainerSecurityContext{SelinuxOptions: &runtimeapi.SELinuxOption{Level: "s0:c2"}},
		},
		{
			name: "SELinux of the pod", pod: corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "s0"}},
			want: &runtimeapi.LinuxContainerSecurityContext{SelinuxOptions: &runtimeapi.SELinuxOption{User: "u", Role: "r", Type: "t", Level: "s0"}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web(onApp(func(c *corev1.Container) { c.SecurityContext = &tt.app }))
			pod.Spec.SecurityContext = &tt.pod
			if tt.annotation != "" {
				pod.Annotations["container.apparmor.security.beta.kubernetes.io/app"] = tt.annotation
			}
			spec, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{})
			if tt.fails != "" {
				if err == nil || err.Error() != tt.fails {
					t.Errorf("error is %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := spec.Config.GetLinux().GetSecurityContext()
			if tt.want.Seccomp == nil {
				got.Seccomp = nil
			}
			ignore := protocmp.IgnoreFields(&runtimeapi.LinuxContainerSecurityContext{}, "masked_paths", "readonly_paths", "namespace_options", "run_as_user")
			if diff := cmp.Diff(tt.want, got, protocmp.Transform(), ignore); diff != "" {
				t.Errorf("security context (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProcUnmasked(t *testing.T) {
	unmasked := corev1.UnmaskedProcMount
	pod := web(onApp(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{ProcMount: &unmasked} }))
	got := config(t, pod, node(), podspec.Run{}).Config.GetLinux().GetSecurityContext()
	if len(got.GetMaskedPaths())+len(got.GetReadonlyPaths()) > 0 {
		t.Errorf("masked %v, read-only %v, want neither", got.GetMaskedPaths(), got.GetReadonlyPaths())
	}
}

// TestIdentityOfThePod: groups, users and kernel parameters are the same in the sandbox
// and in every container.
func TestIdentityOfThePod(t *testing.T) {
	group, strict := int64(2000), corev1.SupplementalGroupsPolicyStrict
	pod := web()
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		FSGroup: &group, SupplementalGroups: []int64{3000, 2000}, SupplementalGroupsPolicy: &strict,
		SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"},
		Sysctls:        []corev1.Sysctl{{Name: "kernel/shm_rmid_forced", Value: "1"}, {Name: "net.ipv4.tcp_syncookies", Value: "0"}, {Name: "net/ipv4/conf/eth0.1/forwarding", Value: "1"}},
	}
	grant := podspec.Grant{Users: &podspec.UserNamespace{First: 131072, Length: 65536}, Groups: []int64{4000}}
	users := []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}}
	namespaces := &runtimeapi.NamespaceOption{
		Pid: runtimeapi.NamespaceMode_CONTAINER, UsernsOptions: &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: users, Gids: users},
	}
	inSandbox := sandbox(t, pod, node(), podspec.SandboxRun{Grant: grant}).Config.GetLinux()
	want := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions: namespaces, Seccomp: &runtimeapi.SecurityProfile{}, SelinuxOptions: &runtimeapi.SELinuxOption{Level: "s0"},
		SupplementalGroups: []int64{2000, 4000, 3000}, SupplementalGroupsPolicy: runtimeapi.SupplementalGroupsPolicy_Strict,
	}
	if diff := cmp.Diff(want, inSandbox.GetSecurityContext(), protocmp.Transform()); diff != "" {
		t.Errorf("sandbox (-want +got):\n%s", diff)
	}
	sysctls := map[string]string{"kernel.shm_rmid_forced": "1", "net.ipv4.tcp_syncookies": "0", "net.ipv4.conf.eth0/1.forwarding": "1"}
	if diff := cmp.Diff(sysctls, inSandbox.GetSysctls()); diff != "" {
		t.Errorf("sysctls (-want +got):\n%s", diff)
	}
	inContainer := config(t, pod, node(), podspec.Run{Grant: grant}).Config.GetLinux().GetSecurityContext()
	if diff := cmp.Diff(namespaces, inContainer.GetNamespaceOptions(), protocmp.Transform()); diff != "" {
		t.Errorf("namespaces of the container (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.SupplementalGroups, inContainer.GetSupplementalGroups()); diff != "" || inContainer.GetSupplementalGroupsPolicy() != runtimeapi.SupplementalGroupsPolicy_Strict {
		t.Errorf("groups of the container, policy %s (-want +got):\n%s", inContainer.GetSupplementalGroupsPolicy(), diff)
	}
}

// TestPrivilegedInitContainer: the sandbox is privileged if any container is.
func TestPrivilegedInitContainer(t *testing.T) {
	yes := true
	pod := web()
	pod.Spec.InitContainers = []corev1.Container{{Name: "i", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}
	if !sandbox(t, pod, node(), podspec.SandboxRun{}).Config.GetLinux().GetSecurityContext().GetPrivileged() {
		t.Error("the sandbox is not privileged")
	}
}

func TestEphemeralContainer(t *testing.T) {
	share := true
	pod := web(func(p *corev1.Pod) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "sh:1"}, TargetContainerName: "app"}}
	})
	c := (*corev1.Container)(&pod.Spec.EphemeralContainers[0].EphemeralContainerCommon)
	of := func() *runtimeapi.NamespaceOption {
		spec, err := podspec.Container(pod, c, node(), podspec.Run{Target: "c1"})
		if err != nil {
			t.Fatal(err)
		}
		return spec.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	}
	if diff := cmp.Diff(&runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_TARGET, TargetId: "c1"}, of(), protocmp.Transform()); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	pod.Spec.ShareProcessNamespace = &share
	if diff := cmp.Diff(&runtimeapi.NamespaceOption{}, of(), protocmp.Transform()); diff != "" {
		t.Errorf("namespaces where all processes are shared (-want +got):\n%s", diff)
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
