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
			t.Errorf("%s has no rule: honour it, warn of it, refuse it, or say whose it is", key)
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
	runChecks(t, []checkCase{
		{name: "plain", pod: func(*corev1.Pod) {}},
		{
			name: "options for Windows, of a pod that may run on either",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new("me")}}
			},
			want: []string{"spec.containers[0].securityContext.windowsOptions: it is for Windows, and means nothing on Linux"},
		},
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
			name: "ways of probing", opt: Options{Can: Probes | Hooks},
			pod: func(p *corev1.Pod) {
				h2, tls, odd := corev1.HTTPProtocolHTTP2, corev1.GRPCProbeModeTLS, corev1.HTTPProtocol("HTTP3")
				get := func(protocol *corev1.HTTPProtocol) *corev1.HTTPGetAction {
					return &corev1.HTTPGetAction{Protocol: protocol}
				}
				c := &p.Spec.Containers[0]
				c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get(&h2)}}
				c.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Mode: &tls}}}
				c.StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get(&odd)}}
				c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get(&h2)}}
			},
			want: []string{
				`spec.containers[0].startupProbe.httpGet.protocol: "HTTP3" is not supported, only ["HTTP1" "HTTP2"]`,
				"spec.containers[0].lifecycle.preStop: httpGet.protocol: a hook has no choice of the HTTP version",
			},
		},
		{
			name: "host users", pod: func(p *corev1.Pod) { p.Spec.HostUsers = &no },
			want: []string{"spec.hostUsers: user namespaces are not supported"},
		},
		{
			name: "what is somebody else's", pod: func(p *corev1.Pod) {
				p.Spec.SchedulerName, p.Spec.AutomountServiceAccountToken = "mine", &yes
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1}}
			},
		},
		{
			name: "labels that are not a mount option", opt: Options{Can: SELinux},
			pod: func(p *corev1.Pod) {
				policy := corev1.SELinuxChangePolicyMountOption
				p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxChangePolicy: &policy}
			},
			want: []string{"spec.securityContext.seLinuxChangePolicy: the runtime labels volumes file by file, not by an option of their mount"},
		},
		{
			name: "labels file by file", opt: Options{Can: SELinux},
			pod: func(p *corev1.Pod) {
				policy := corev1.SELinuxChangePolicyRecursive
				p.Spec.SecurityContext = &corev1.PodSecurityContext{SELinuxChangePolicy: &policy}
			},
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
			want: []string{"spec.volumes[0].secret: this agent sets up no volumes"},
		},
		{
			name: "media of volumes",
			pod: func(p *corev1.Pod) {
				for _, medium := range []corev1.StorageMedium{"", "Memory", "HugePages", "HugePages-2Mi", "Tape"} {
					p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium}}})
				}
			},
			opt:  Options{Can: Volumes},
			want: []string{`spec.volumes[4].emptyDir.medium: "Tape" is not supported, only ["" "Memory" "HugePages"]`},
		},
		{
			name: "sources of a projected volume",
			pod: func(p *corev1.Pod) {
				p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}},
					{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
						{Path: "a", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations"}},
						{Path: "b", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}},
					}}},
					{PodCertificate: &corev1.PodCertificateProjection{SignerName: "a/b"}},
				}}}}}
			},
			opt: Options{Can: Volumes},
			want: []string{
				"spec.volumes[0].projected.sources[0].serviceAccountToken: there is nobody to ask for tokens",
				`spec.volumes[0].projected.sources[1].downwardAPI.items[1].fieldRef: field path "status.podIP" is not supported`,
				"spec.volumes[0].projected.sources[2].podCertificate: certificates for pods are not requested",
			},
		},
		{
			name: "field reference",
			pod: func(p *corev1.Pod) {
				p.Spec.Containers[0].Env = []corev1.EnvVar{
					{Name: "A", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['app']"}}},
					{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.containers"}}},
					{Name: "C", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}}},
				}
			},
			want: []string{
				`spec.containers[0].env[1].valueFrom.fieldRef: field path "spec.containers" is not supported`,
				`spec.containers[0].env[2].valueFrom.fieldRef: apiVersion "v2" is not supported, only v1`,
			},
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
			name: "no AppArmor asked for where there is none",
			pod: func(p *corev1.Pod) {
				p.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/app": "unconfined"}
				unconfined := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
				p.Spec.SecurityContext = &corev1.PodSecurityContext{AppArmorProfile: unconfined}
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AppArmorProfile: unconfined}
			},
		},
		{
			name: "policy of the future", pod: func(p *corev1.Pod) { p.Spec.RestartPolicy = "Sometimes" },
			want: []string{`spec.restartPolicy: "Sometimes" is not supported, only ["Always" "OnFailure" "Never"]`},
		},
		{
			name: "cosmetic", pod: func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
			want: []string{"spec.imagePullSecrets: images are pulled without these credentials"},
		},
	})
}

// checkCase is a pod and the problems it has.
type checkCase struct {
	name string
	pod  func(*corev1.Pod)
	opt  Options
	want []string
}

func runChecks(t *testing.T, tests []checkCase) {
	t.Helper()
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

func TestCheckResources(t *testing.T) {
	quantity := resource.MustParse("1")
	runChecks(t, []checkCase{
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
			opt: Options{Can: Volumes},
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
	})
}

// TestAbilitiesOpenFields sets every field that needs an ability, each in a pod of its
// own: with the ability the pod runs, without it it is refused or warned of.
func TestAbilitiesOpenFields(t *testing.T) {
	no, deadline, group := false, int64(60), int64(1)
	always, never := corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever
	unmasked, strict, class := corev1.UnmaskedProcMount, corev1.SupplementalGroupsPolicyStrict, "kata"
	quantity := resource.MustParse("1Gi")
	app := func(edit func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { edit(&p.Spec.Containers[0]) }
	}
	pod := func(edit func(*corev1.PodSpec)) func(*corev1.Pod) { return func(p *corev1.Pod) { edit(&p.Spec) } }
	volume := func(source corev1.VolumeSource) func(*corev1.Pod) {
		return pod(func(s *corev1.PodSpec) { s.Volumes = []corev1.Volume{{Name: "v", VolumeSource: source}} })
	}
	projected := func(source corev1.VolumeProjection) func(*corev1.Pod) {
		return volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{source}}})
	}
	security := func(sc corev1.PodSecurityContext) func(*corev1.Pod) {
		return pod(func(s *corev1.PodSpec) { s.SecurityContext = &sc })
	}
	tests := []struct {
		needs Ability
		field string
		pod   func(*corev1.Pod)
	}{
		{Probes, "spec.containers[0].startupProbe", app(func(c *corev1.Container) { c.StartupProbe = &corev1.Probe{} })},
		{InitContainers, "spec.initContainers", pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: &always}} })},
		{EphemeralContainers, "spec.ephemeralContainers", pod(func(s *corev1.PodSpec) {
			s.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}, TargetContainerName: "app"}}
		})},
		{Hooks, "spec.containers[0].lifecycle", app(func(c *corev1.Container) {
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
		})},
		{Deadlines, "spec.activeDeadlineSeconds", pod(func(s *corev1.PodSpec) { s.ActiveDeadlineSeconds = &deadline })},
		{RestartRules, "spec.containers[0].restartPolicy", app(func(c *corev1.Container) { c.RestartPolicy = &never })},
		{RestartRules | InitContainers, "spec.initContainers", pod(func(s *corev1.PodSpec) { s.InitContainers = []corev1.Container{{Name: "i", RestartPolicy: &never}} })},
		{Scheduling, "spec.nodeSelector", pod(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} })},
		{Sysctls, "spec.securityContext.sysctls", security(corev1.PodSecurityContext{Sysctls: []corev1.Sysctl{{Name: "a"}}})},
		{ReferencedObjects, "spec.containers[0].envFrom", app(func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{}}} })},
		{PullSecrets, "spec.imagePullSecrets", pod(func(s *corev1.PodSpec) { s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} })},
		{RuntimeClasses, "spec.runtimeClassName", pod(func(s *corev1.PodSpec) { s.RuntimeClassName = &class })},
		{UserNamespaces, "spec.hostUsers", pod(func(s *corev1.PodSpec) { s.HostUsers = &no })},
		{UserNamespaces, "spec.containers[0].securityContext.procMount", app(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{ProcMount: &unmasked} })},
		{SubPaths, "spec.containers[0].volumeMounts[0].subPath", app(func(c *corev1.Container) { c.VolumeMounts = []corev1.VolumeMount{{SubPath: "a"}} })},
		{Volumes, "spec.volumes[0].emptyDir", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: &quantity}})},
		{Volumes, "spec.volumes[0].downwardAPI", volume(corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "a", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		}}})},
		{CSIVolumes, "spec.volumes[0].persistentVolumeClaim", volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}})},
		{CSIVolumes, "spec.containers[0].volumeDevices", app(func(c *corev1.Container) { c.VolumeDevices = []corev1.VolumeDevice{{Name: "v"}} })},
		{Volumes | ServiceAccountTokens, "spec.volumes[0].projected", projected(corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "t"}})},
		{Volumes | TrustBundles, "spec.volumes[0].projected", projected(corev1.VolumeProjection{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "t"}})},
		{ImageVolumes, "spec.volumes[0].image", volume(corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "x"}})},
		{Volumes, "spec.securityContext.fsGroup", security(corev1.PodSecurityContext{FSGroup: &group})},
		{LocalStorage | Volumes, "spec.volumes[0].emptyDir", volume(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &quantity}})},
		{PodCgroups, "spec.overhead", pod(func(s *corev1.PodSpec) { s.Overhead = corev1.ResourceList{"cpu": quantity} })},
		{Devices, "spec.containers[0].resources", app(func(c *corev1.Container) { c.Resources.Limits = corev1.ResourceList{"example.com/gpu": quantity} })},
		{AppArmor, "spec.securityContext.appArmorProfile", security(corev1.PodSecurityContext{AppArmorProfile: &corev1.AppArmorProfile{Type: "RuntimeDefault"}})},
		{SELinux, "spec.securityContext.seLinuxOptions", security(corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: "s0"}})},
		{StrictGroups, "spec.securityContext.supplementalGroupsPolicy", security(corev1.PodSecurityContext{SupplementalGroupsPolicy: &strict})},
	}
	var covered Ability
	for _, tt := range tests {
		t.Run(tt.needs.String()+" "+tt.field, func(t *testing.T) {
			p := plainPod()
			tt.pod(p)
			if got := Check(p, Options{Can: tt.needs}); len(got) > 0 {
				t.Errorf("with the ability: %v", got)
			}
			got := Check(p, Options{Can: (endOfAbilities - 1) &^ tt.needs})
			if len(got) == 0 || got[0].Field != tt.field {
				t.Errorf("without the ability: %v, want a problem with %s", got, tt.field)
			}
		})
		covered |= tt.needs
	}
	if missing := (endOfAbilities - 1) &^ covered; missing != 0 {
		t.Errorf("no field is known that needs %s", missing)
	}
}

// TestUsersOfItsOwnInNamespacesOfTheHost are refused, as mappings cannot hold there.
func TestUsersOfItsOwnInNamespacesOfTheHost(t *testing.T) {
	no := false
	p := plainPod()
	p.Spec.HostUsers, p.Spec.HostNetwork = &no, true
	if err := Refusal(Check(p, Options{Can: UserNamespaces})); err == nil {
		t.Error("the pod is accepted")
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
