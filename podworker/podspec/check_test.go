package podspec

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestEveryFieldHasARule walks all types a PodSpec is made of, through fields that
// may be set, and fails for one without a rule; and for rules without a field.
func TestEveryFieldHasARule(t *testing.T) {
	seen := map[string]bool{}
	walk(t, reflect.TypeFor[corev1.PodSpec](), seen)
	for key := range fields {
		if !seen[key] {
			t.Errorf("the rule for %s belongs to no field that can be reached", key)
		}
	}
}

func walk(t *testing.T, typ reflect.Type, seen map[string]bool) {
	t.Helper()
	switch typ.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		walk(t, typ.Elem(), seen)
		return
	case reflect.Struct:
	default:
		return
	}
	if isLeaf(typ) {
		return
	}
	for f := range typ.Fields() {
		key := typ.Name() + "." + f.Name
		if seen[key] {
			continue
		}
		seen[key] = true
		r, ok := fields[key]
		if !ok {
			t.Errorf("%s has no rule: honour it, warn of it or refuse it", key)
			continue
		}
		if r.support == Honoured || r.needs != 0 {
			walk(t, f.Type, seen)
		}
		if r.support != Honoured && r.why == "" {
			t.Errorf("the rule for %s does not say why", key)
		}
	}
}

func plainPod() *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
	pod.Namespace, pod.Name, pod.UID = "default", "web", "u1"
	return pod
}

func TestCheck(t *testing.T) {
	zero := int64(0)
	no, yes := false, true
	quantity := resource.MustParse("1")
	tests := []struct {
		name string
		pod  func(*corev1.Pod)
		opt  Options
		want []string
	}{
		{name: "plain", pod: func(*corev1.Pod) {}},
		{
			name: "names that lead elsewhere",
			pod: func(p *corev1.Pod) {
				p.UID, p.Spec.Containers[0].Name = "..", "a/../../b"
				p.Spec.Volumes = []corev1.Volume{{}}
			},
			want: []string{
				`metadata.uid: ".." cannot be part of a path`, `spec.containers[0].name: "a/../../b" cannot be part of a path`,
				`spec.volumes[0].name: "" cannot be part of a path`,
			},
		},
		{
			name: "init containers", pod: func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "i"}} },
			want: []string{"spec.initContainers: init containers are not supported"},
		},
		{
			name: "probe", pod: func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = &corev1.Probe{} },
			want: []string{"spec.containers[0].livenessProbe: no probe engine is attached"},
		},
		{
			name: "probe with an engine", opt: Options{Can: Probes},
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].LivenessProbe = &corev1.Probe{
					ProbeHandler:                  corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}},
					TerminationGracePeriodSeconds: &zero,
				}
			},
		},
		{
			name: "host users", pod: func(p *corev1.Pod) { p.Spec.HostUsers = &no },
			want: []string{"spec.hostUsers: user namespaces are not supported"},
		},
		{name: "host users as ever", pod: func(p *corev1.Pod) { p.Spec.HostUsers = &yes }},
		{name: "false is not asking", pod: func(p *corev1.Pod) { p.Spec.SetHostnameAsFQDN = &no }},
		{
			name: "true is", pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Optional: &yes}}}}
			},
			want: []string{"spec.containers[0].env[0].valueFrom.configMapKeyRef: variables from ConfigMaps are not supported"},
		},
		{
			name: "zero behind a pointer is asking",
			pod: func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &zero}
			},
			want: []string{"spec.securityContext.fsGroup: the group of volumes is not changed"},
		},
		{
			name: "empty structs say nothing",
			pod: func(p *corev1.Pod) {
				p.Spec.Affinity, p.Spec.Resources = &corev1.Affinity{}, &corev1.ResourceRequirements{}
				p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{}
			},
		},
		{
			name: "secret volume",
			pod: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}}}
			},
			want: []string{"spec.volumes[0].secret: volumes of this type are not supported"},
		},
		{
			name: "memory volume",
			pod: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory"}}}}
			},
			want: []string{`spec.volumes[0].emptyDir.medium: "Memory" is not supported, only [""]`},
		},
		{
			name: "hugepages",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"hugepages-2Mi": quantity, "cpu": quantity}
			},
		},
		{
			name: "devices",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/gpu": quantity}
			},
			want: []string{"spec.containers[0].resources: resource example.com/gpu is not handed out"},
		},
		{
			name: "local storage",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"ephemeral-storage": quantity}
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &quantity}}}}
			},
			want: []string{
				"spec.volumes[0].emptyDir: the size of a volume on disk is not limited",
				"spec.containers[0].resources: a limit of ephemeral-storage is not enforced",
			},
		},
		{
			name: "a request for local storage is the scheduler's",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"ephemeral-storage": quantity}
			},
		},
		{
			name: "field reference",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{
					{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
					{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.containers"}}},
				}
			},
			want: []string{`spec.containers[0].env[1].valueFrom.fieldRef: field path "spec.containers" is not supported`},
		},
		{
			name: "seccomp of the future",
			pod: func(p *corev1.Pod) {
				p.Spec.SecurityContext = &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: "Notify"}}
			},
			want: []string{`spec.securityContext.seccompProfile.type: "Notify" is not supported, only ["RuntimeDefault" "Unconfined" "Localhost"]`},
		},
		{
			name: "AppArmor by annotation",
			pod: func(p *corev1.Pod) {
				p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "runtime/default"}
			},
			want: []string{"metadata.annotations[container.apparmor.security.beta.kubernetes.io/app]: AppArmor profiles are not supported"},
		},
		{
			name: "policy of the future", pod: func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
			want: []string{`spec.restartPolicy: "Sometimes" is not supported, only ["Always" "OnFailure" "Never"]`},
		},
		{
			name: "cosmetic", pod: func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
			want: []string{"spec.imagePullSecrets: images are pulled without these credentials"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := plainPod()
			tt.pod(pod)
			var got []string
			for _, p := range Check(pod, tt.opt) {
				got = append(got, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// TestUnknownFieldIsRefused takes the rule of a field away, as a newer API would add
// a field.
func TestUnknownFieldIsRefused(t *testing.T) {
	const key = "Container.TTY"
	old := fields[key]
	delete(fields, key)
	defer func() { fields[key] = old }()
	pod := plainPod()
	pod.Spec.Containers[0].TTY = true
	err := Refusal(Check(pod, Options{}))
	if err == nil || err.Error() != "pod is not supported: spec.containers[0].tty: the field is not known to this version" {
		t.Errorf("Refusal = %v", err)
	}
}

func TestRefusalIgnoresWarnings(t *testing.T) {
	if err := Refusal([]Problem{{Field: "spec.x", Support: Warned, Why: "cosmetic"}}); err != nil {
		t.Errorf("Refusal = %v, want nil", err)
	}
}
