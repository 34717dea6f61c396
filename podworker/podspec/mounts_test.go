package podspec_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// mounting is a pod whose container has one mount of each of three volumes: data (an
// emptyDir), host and tools (an image).
func mounting(vm corev1.VolumeMount) *corev1.Pod {
	pod := web(onApp(func(c *corev1.Container) { c.VolumeMounts = []corev1.VolumeMount{vm} }))
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "data"},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}}},
		{Name: "tools", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "img.example/tools:1"}}},
	}
	return pod
}

func TestMountOfAPart(t *testing.T) {
	const volumes, parts = "/pods/u1/", "/var/lib/kubelet/pods/u1/volume-subpaths/"
	both, none := corev1.MountPropagationBidirectional, corev1.MountPropagationNone
	disabled, possible, enabled := corev1.RecursiveReadOnlyDisabled, corev1.RecursiveReadOnlyIfPossible, corev1.RecursiveReadOnlyEnabled
	able := podspec.Grant{Handler: podspec.Handler{RecursiveReadOnly: true}}
	image := &runtimeapi.ImageSpec{Image: "sha256:1", UserSpecifiedImage: "img.example/tools:1"}
	tests := []struct {
		name  string
		vm    corev1.VolumeMount
		grant podspec.Grant
		want  *runtimeapi.Mount
		path  string // the last wish
		fails string
	}{
		{
			name: "sub-path", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", SubPath: "app/conf"},
			want: &runtimeapi.Mount{ContainerPath: "/c", HostPath: parts + "host/app/0"},
			path: "sub-path " + parts + "host/app/0 of /srv app/conf",
		},
		{
			name: "sub-path with a variable", vm: corev1.VolumeMount{Name: "data", MountPath: "/c", SubPathExpr: "logs/$(POD)"},
			want: &runtimeapi.Mount{ContainerPath: "/c", HostPath: parts + "data/app/0"},
			path: "sub-path " + parts + "data/app/0 of " + volumes + "data logs/web",
		},
		{name: "unknown variable", vm: corev1.VolumeMount{Name: "data", MountPath: "/c", SubPathExpr: "$(X)"}, fails: `subPathExpr "$(X)" of volume mount data: missing value for ["X"]`},
		{name: "absolute", vm: corev1.VolumeMount{Name: "data", MountPath: "/c", SubPath: "/etc"}, fails: "error SubPath `/etc` must not be an absolute path"},
		{name: "up", vm: corev1.VolumeMount{Name: "data", MountPath: "/c", SubPath: "a/../../b"}, fails: "unable to provision SubPath `a/../../b`: must not contain '..'"},
		{name: "dots in a name", vm: corev1.VolumeMount{Name: "data", MountPath: "/c", SubPath: "..data"}, want: &runtimeapi.Mount{ContainerPath: "/c", HostPath: parts + "data/app/0"}, path: "sub-path " + parts + "data/app/0 of " + volumes + "data ..data"},
		{
			name: "image", vm: corev1.VolumeMount{Name: "tools", MountPath: "/t", SubPath: "bin"},
			want: &runtimeapi.Mount{ContainerPath: "/t", Readonly: true, Image: image, ImageSubPath: "bin"},
		},
		{
			name: "recursively read-only", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: &enabled, MountPropagation: &none}, grant: able,
			want: &runtimeapi.Mount{ContainerPath: "/c", HostPath: "/srv", Readonly: true, RecursiveReadOnly: true},
		},
		{
			name: "if possible, and it is not", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: &possible},
			want: &runtimeapi.Mount{ContainerPath: "/c", HostPath: "/srv", Readonly: true},
		},
		{
			name: "disabled", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: &disabled}, grant: able,
			want: &runtimeapi.Mount{ContainerPath: "/c", HostPath: "/srv", Readonly: true},
		},
		{
			name: "not supported", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: &enabled},
			fails: `failed to resolve recursive read-only mode: volume "host" requested recursive read-only mode, but it is not supported by the runtime`,
		},
		{
			name: "recursive but writable", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", RecursiveReadOnly: &enabled}, grant: able,
			fails: `failed to resolve recursive read-only mode: volume "host" requested recursive read-only mode, but it is not read-only`,
		},
		{
			name: "recursive and propagated", vm: corev1.VolumeMount{Name: "host", MountPath: "/c", ReadOnly: true, RecursiveReadOnly: &enabled, MountPropagation: &both}, grant: able,
			fails: `failed to resolve recursive read-only mode: volume "host" requested recursive read-only mode, but it is not compatible with propagation "Bidirectional"`,
		},
		{
			name: "users of its own", vm: corev1.VolumeMount{Name: "host", MountPath: "/c"}, grant: podspec.Grant{Users: &podspec.UserNamespace{First: 131072, Length: 65536}},
			want: &runtimeapi.Mount{
				ContainerPath: "/c", HostPath: "/srv",
				UidMappings: []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}}, GidMappings: []*runtimeapi.IDMapping{{HostId: 131072, Length: 65536}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := mounting(tt.vm)
			pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "POD", Value: "web"}}
			spec, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{
				Grant: tt.grant, Images: map[string]string{"tools": "sha256:1"},
				Volumes: map[string]podspec.Volume{"data": {Path: volumes + "data"}, "host": {Path: "/srv"}},
			})
			if tt.fails != "" {
				if fmt.Sprint(err) != tt.fails {
					t.Errorf("error is %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]*runtimeapi.Mount{tt.want}, spec.Config.GetMounts(), protocmp.Transform()); diff != "" {
				t.Errorf("mounts (-want +got):\n%s", diff)
			}
			last := spec.Paths[len(spec.Paths)-1]
			got := last.Kind.String() + " " + last.Path
			if last.Kind == podspec.SubPath {
				got += " of " + last.Base + " " + last.Sub
			}
			if tt.path != "" && got != tt.path {
				t.Errorf("last wish is %q, want %q", got, tt.path)
			}
		})
	}
}

func TestImageThatWasNotPulled(t *testing.T) {
	pod := mounting(corev1.VolumeMount{Name: "tools", MountPath: "/t"})
	_, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), podspec.Run{})
	if want := "volume mount tools: the image of the volume is not on the node"; fmt.Sprint(err) != want {
		t.Errorf("error is %v, want %s", err, want)
	}
}
