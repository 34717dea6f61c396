package podspec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

func node() *podspec.Node {
	return &podspec.Node{Name: "node-a", IPs: []string{"10.0.0.2"}, Memory: 8 << 30, Instance: "agent-1"}
}

func web(edit ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "u1",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"kubernetes.io/config.source": "file"},
		},
		Spec: corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "app", Image: "img:1"}}},
	}
	for _, e := range edit {
		e(pod)
	}
	return pod
}

// onApp changes the container of the pod.
func onApp(edit func(*corev1.Container)) func(*corev1.Pod) {
	return func(p *corev1.Pod) { edit(&p.Spec.Containers[0]) }
}

func config(t *testing.T, pod *corev1.Pod, n *podspec.Node, run podspec.Run) podspec.ContainerSpec {
	t.Helper()
	spec, err := podspec.Container(pod, &pod.Spec.Containers[0], n, run)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func sandbox(t *testing.T, pod *corev1.Pod, n *podspec.Node, run podspec.SandboxRun) podspec.SandboxSpec {
	t.Helper()
	spec, err := podspec.Sandbox(pod, n, run)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

func TestSandboxConfig(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) {
		c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 80, HostPort: 8080, Protocol: corev1.ProtocolTCP, HostIP: "10.0.0.2"}, {ContainerPort: 53, Protocol: corev1.ProtocolUDP}}
	}))
	n := node()
	n.DNS.Host = podspec.Resolver{Servers: []string{"192.0.2.53"}, Searches: []string{"example"}}
	got := sandbox(t, pod, n, podspec.SandboxRun{Attempt: 2})
	want := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: "web", Namespace: "default", Uid: "u1", Attempt: 2},
		Hostname:     "web",
		LogDirectory: "/var/log/pods/default_web_u1",
		DnsConfig:    &runtimeapi.DNSConfig{Servers: []string{"192.0.2.53"}, Searches: []string{"example"}},
		PortMappings: []*runtimeapi.PortMapping{
			{ContainerPort: 80, HostPort: 8080, HostIp: "10.0.0.2"},
			{Protocol: runtimeapi.Protocol_UDP, ContainerPort: 53},
		},
		Labels: map[string]string{
			"app": "web", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1",
		},
		Annotations: map[string]string{"kubernetes.io/config.source": "file", "io.nodekit.instance": "agent-1"},
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/besteffort/podu1",
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: &runtimeapi.NamespaceOption{Pid: runtimeapi.NamespaceMode_CONTAINER},
				Seccomp:          &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
			Overhead:  &runtimeapi.LinuxContainerResources{},
			Resources: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2},
		},
	}
	if diff := cmp.Diff(want, got.Config, protocmp.Transform()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	paths := []podspec.Path{
		{Path: "/var/log/pods/default_web_u1", Mode: 0o755},
		{Path: "/var/lib/kubelet/pods/u1", Mode: 0o750},
	}
	if diff := cmp.Diff(paths, got.Paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestSandboxOnTheHost(t *testing.T) {
	share := true
	pod := web(func(p *corev1.Pod) {
		p.Spec.HostNetwork, p.Spec.HostIPC, p.Spec.ShareProcessNamespace = true, true, &share
	})
	got := sandbox(t, pod, node(), podspec.SandboxRun{}).Config
	if got.GetHostname() != "" {
		t.Errorf("hostname is %q, want the node's", got.GetHostname())
	}
	want := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Ipc: runtimeapi.NamespaceMode_NODE, Pid: runtimeapi.NamespaceMode_POD}
	if diff := cmp.Diff(want, got.GetLinux().GetSecurityContext().GetNamespaceOptions(), protocmp.Transform()); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

func TestContainerConfig(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) {
		c.Command = []string{"serve", "$(GREETING)"}
		c.Args = []string{"--name=$(NAME)", "$$(NAME)"}
		c.WorkingDir = "/srv"
		c.Env = []corev1.EnvVar{{Name: "NAME", Value: "web"}, {Name: "GREETING", Value: "hi $(NAME) $(LATER)"}, {Name: "LATER", Value: "x"}}
		c.Stdin, c.TTY = true, true
	}))
	got := config(t, pod, node(), podspec.Run{Attempt: 3, Backoff: -1, ImageRef: "sha256:1"}).Config
	want := &runtimeapi.ContainerConfig{
		Metadata:   &runtimeapi.ContainerMetadata{Name: "app", Attempt: 3},
		Image:      &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "img:1"},
		Command:    []string{"serve", "hi web $(LATER)"},
		Args:       []string{"--name=web", "$(NAME)"},
		WorkingDir: "/srv",
		Envs: []*runtimeapi.KeyValue{
			{Key: "NAME", Value: []byte("web")}, {Key: "GREETING", Value: []byte("hi web $(LATER)")}, {Key: "LATER", Value: []byte("x")},
		},
		Labels: map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default", "io.kubernetes.pod.uid": "u1", "io.kubernetes.container.name": "app",
		},
		LogPath: "app/3.log",
		Stdin:   true,
		Tty:     true,
	}
	ignore := protocmp.IgnoreFields(&runtimeapi.ContainerConfig{}, "linux", "annotations", "mounts")
	if diff := cmp.Diff(want, got, protocmp.Transform(), ignore); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestEnvironment(t *testing.T) {
	ref := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	tests := []struct {
		name string
		env  []corev1.EnvVar
		want string
	}{
		{name: "the later of two wins", env: []corev1.EnvVar{{Name: "X", Value: "1"}, {Name: "X", Value: "2$(X)"}}, want: "21"},
		{name: "name", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("metadata.name")}}, want: "web"},
		{name: "a value goes before a reference", env: []corev1.EnvVar{{Name: "X", Value: "v", ValueFrom: ref("metadata.name")}}, want: "v"},
		{name: "uid", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("metadata.uid")}}, want: "u1"},
		{name: "label", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("metadata.labels['app']")}}, want: "web"},
		{name: "missing annotation", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("metadata.annotations['none']")}}},
		{name: "node", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("spec.nodeName")}}, want: "node-a"},
		{name: "host address", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("status.hostIP")}}, want: "10.0.0.2"},
		{name: "pod addresses", env: []corev1.EnvVar{{Name: "X", ValueFrom: ref("status.podIPs")}}, want: "10.88.0.2,fd00::2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web(onApp(func(c *corev1.Container) { c.Env = tt.env }))
			envs := config(t, pod, node(), podspec.Run{PodIPs: []string{"10.88.0.2", "fd00::2"}}).Config.GetEnvs()
			if len(envs) != 1 || string(envs[0].GetValue()) != tt.want {
				t.Errorf("environment is %v, want X=%s", envs, tt.want)
			}
		})
	}
}

func TestResources(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		l := corev1.ResourceList{}
		if cpu != "" {
			l["cpu"] = resource.MustParse(cpu)
		}
		if memory != "" {
			l["memory"] = resource.MustParse(memory)
		}
		return l
	}
	tests := []struct {
		name string
		r    corev1.ResourceRequirements
		edit func(*podspec.Node)
		want *runtimeapi.LinuxContainerResources
	}{
		{name: "best effort", want: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2, OomScoreAdj: 1000}},
		{
			name: "guaranteed", r: corev1.ResourceRequirements{Limits: list("500m", "1Gi")},
			want: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 50000, CpuShares: 512, MemoryLimitInBytes: 1 << 30, OomScoreAdj: -997},
		},
		{
			name: "burstable", r: corev1.ResourceRequirements{Requests: list("2", "2Gi"), Limits: list("", "4Gi")},
			want: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2048, MemoryLimitInBytes: 4 << 30, OomScoreAdj: 750},
		},
		{
			name: "tiny limits", r: corev1.ResourceRequirements{Limits: list("1m", ""), Requests: list("0", "")},
			want: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuQuota: 1000, CpuShares: 2, OomScoreAdj: 999},
		},
		{
			name: "huge request", r: corev1.ResourceRequirements{Requests: list("1000", "8Gi")},
			want: &runtimeapi.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 262144, OomScoreAdj: 3},
		},
		{
			name: "quota off", r: corev1.ResourceRequirements{Limits: list("1", "1Gi")}, edit: func(n *podspec.Node) { n.NoCPUQuota = true },
			want: &runtimeapi.LinuxContainerResources{CpuShares: 1024, MemoryLimitInBytes: 1 << 30, OomScoreAdj: -997},
		},
		{
			name: "short period", r: corev1.ResourceRequirements{Limits: list("1", "1Gi")}, edit: func(n *podspec.Node) { n.CPUQuotaPeriod = 10e6 },
			want: &runtimeapi.LinuxContainerResources{CpuPeriod: 10000, CpuQuota: 10000, CpuShares: 1024, MemoryLimitInBytes: 1 << 30, OomScoreAdj: -997},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := node()
			if tt.edit != nil {
				tt.edit(n)
			}
			pod := web(onApp(func(c *corev1.Container) { c.Resources = tt.r }))
			got := config(t, pod, n, podspec.Run{}).Config.GetLinux().GetResources()
			if diff := cmp.Diff(tt.want, got, protocmp.Transform()); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMounts(t *testing.T) {
	both := corev1.MountPropagationBidirectional
	pod := web(onApp(func(c *corev1.Container) {
		c.TerminationMessagePath = "/dev/termination-log"
		c.VolumeMounts = []corev1.VolumeMount{
			{Name: "host", MountPath: "/host", ReadOnly: true, MountPropagation: &both},
			{Name: "scratch", MountPath: "scratch"},
		}
	}))
	pod.Spec.Volumes = []corev1.Volume{{Name: "host"}, {Name: "scratch"}}
	pod.Spec.HostAliases = []corev1.HostAlias{{IP: "192.0.2.1", Hostnames: []string{"a", "b"}}}
	got := config(t, pod, node(), podspec.Run{PodIPs: []string{"10.88.0.2"}, MessageFile: "01234567", Volumes: map[string]podspec.Volume{
		"host": {Path: "/srv"}, "scratch": {Path: "/pods/u1/scratch", Relabel: true, ReadOnly: true},
	}})
	want := []*runtimeapi.Mount{
		{HostPath: "/srv", ContainerPath: "/host", Readonly: true, Propagation: runtimeapi.MountPropagation_PROPAGATION_BIDIRECTIONAL},
		{HostPath: "/pods/u1/scratch", ContainerPath: "/scratch", Readonly: true},
		{HostPath: "/var/lib/kubelet/pods/u1/etc-hosts", ContainerPath: "/etc/hosts"},
		{HostPath: "/var/lib/kubelet/pods/u1/containers/app/01234567", ContainerPath: "/dev/termination-log"},
	}
	if diff := cmp.Diff(want, got.Config.GetMounts(), protocmp.Transform()); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	var text []string
	for _, p := range got.Paths {
		text = append(text, p.Kind.String()+" "+p.Path+" "+p.Mode.String()+" "+string(p.Content))
	}
	paths := []string{
		"own directory /var/log/pods/default_web_u1/app -rwxr-xr-x ",
		"own file /var/lib/kubelet/pods/u1/etc-hosts -rw-r--r-- # Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n" +
			"::1\tlocalhost ip6-localhost ip6-loopback\nfe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n" +
			"10.88.0.2\tweb\n\n# Entries added by HostAliases.\n192.0.2.1\ta\tb\n",
		"own directory /var/lib/kubelet/pods/u1/containers/app -rwxr-x--- ",
		"own file /var/lib/kubelet/pods/u1/containers/app/01234567 -rw-rw-rw- ",
	}
	if diff := cmp.Diff(paths, text); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}

func TestOwnHostsFileIsNotCovered(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) { c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/etc/hosts"}} }))
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	if got := config(t, pod, node(), podspec.Run{PodIPs: []string{"10.88.0.2"}, Volumes: map[string]podspec.Volume{"v": {Path: "/v"}}}).Config.GetMounts(); len(got) != 1 {
		t.Errorf("mounts are %v, want the pod's own only", got)
	}
}

func TestMountOfNoVolume(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) { c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}} }))
	_, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{})
	if err == nil || err.Error() != "volume mount v: the pod has no such volume" {
		t.Errorf("error is %v", err)
	}
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	_, err = podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{})
	if err == nil || err.Error() != "volume mount v: the volume is not set up" {
		t.Errorf("error is %v", err)
	}
}

func TestOwnVolumesAreRelabelled(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) {
		c.VolumeMounts = []corev1.VolumeMount{{Name: "own", MountPath: "/a"}, {Name: "host", MountPath: "/b"}}
	}))
	pod.Spec.Volumes = []corev1.Volume{{Name: "own"}, {Name: "host"}}
	n := node()
	n.SELinux = true
	mounts := config(t, pod, n, podspec.Run{Volumes: map[string]podspec.Volume{"own": {Path: "/a", Relabel: true}, "host": {Path: "/b"}}}).Config.GetMounts()
	if !mounts[0].GetSelinuxRelabel() || mounts[1].GetSelinuxRelabel() {
		t.Errorf("mounts are %v, want the first relabelled only", mounts)
	}
}

func TestBlockDevices(t *testing.T) {
	pod := web(onApp(func(c *corev1.Container) {
		c.VolumeDevices = []corev1.VolumeDevice{{Name: "disk", DevicePath: "/dev/a"}, {Name: "rom", DevicePath: "/dev/b"}}
	}))
	volumes := map[string]podspec.Volume{"disk": {Path: "/pods/disk", Block: true}, "rom": {Path: "/pods/rom", Block: true, ReadOnly: true}}
	want := []*runtimeapi.Device{
		{ContainerPath: "/dev/a", HostPath: "/pods/disk", Permissions: "mrw"}, {ContainerPath: "/dev/b", HostPath: "/pods/rom", Permissions: "r"},
	}
	if diff := cmp.Diff(want, config(t, pod, node(), podspec.Run{Volumes: volumes}).Config.GetDevices(), protocmp.Transform()); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	volumes["rom"] = podspec.Volume{Path: "/pods/rom"}
	_, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{Volumes: volumes})
	if err == nil || err.Error() != "volume device rom: the volume is not set up as a block device" {
		t.Errorf("error is %v", err)
	}
}
