package staticpods

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// plain is the smallest manifest; what is appended belongs to its container or,
// with less indentation, to its spec.
const plain = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: app\n    image: i:1\n"

// plainUID is the UID of plain on Node-A, as sha256sum gives it for the canonical
// form.
const plainUID = "9dce888a9b93d3d27e184a1195df0967"

func decodeOK(t *testing.T, text string) Manifest {
	t.Helper()
	m, err := Decode([]byte(text), "Node-A")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestDecodeMakesAStaticPod(t *testing.T) {
	want := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-node-a", Namespace: "default", UID: "u-1", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{"a": "b", AnnotationHash: "u-1", AnnotationSource: "file"},
		},
		Spec: corev1.PodSpec{
			NodeName: "Node-A", DNSPolicy: corev1.DNSClusterFirst, RestartPolicy: corev1.RestartPolicyAlways, SchedulerName: "default-scheduler",
			TerminationGracePeriodSeconds: new(int64(30)), EnableServiceLinks: new(true), SecurityContext: &corev1.PodSecurityContext{},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Containers: []corev1.Container{{
				Name: "app", Image: "i:1", ImagePullPolicy: corev1.PullIfNotPresent,
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
			}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	m := decodeOK(t, strings.Replace(plain, "  name: web\n", "  name: web\n  uid: u-1\n  labels: {app: web}\n  annotations: {a: b}\n", 1))
	if diff := cmp.Diff(want, m.Pod); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	if len(m.Warnings) > 0 {
		t.Errorf("warnings %v", m.Warnings)
	}
}

func TestDecodeSetsTheDefaultsOfTheAPI(t *testing.T) {
	const text = plain + `    ports: [{containerPort: 80}]
    env:
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    resources: {limits: {cpu: 100.5m, memory: 64Mi}, requests: {memory: 32Mi}}
    readinessProbe: {httpGet: {port: 80}}
    livenessProbe: {grpc: {port: 90}, periodSeconds: 3}
    lifecycle: {preStop: {httpGet: {port: 80}}}
  initContainers:
  - {name: init, image: i}
  hostNetwork: true
  volumes:
  - {name: scratch}
  - {name: host, hostPath: {path: /srv}}
  - {name: info, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
  - {name: mixed, projected: {sources: [{downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}]}}
  - {name: tools, image: {reference: "t:2"}}
`
	field := func() *corev1.ObjectFieldSelector {
		return &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}
	}
	items := func() []corev1.DownwardAPIVolumeFile {
		return []corev1.DownwardAPIVolumeFile{{Path: "name", FieldRef: field()}}
	}
	http := &corev1.HTTPGetAction{Path: "/", Scheme: corev1.URISchemeHTTP, Port: intstr.FromInt32(80)}
	pod := decodeOK(t, text).Pod
	c := pod.Spec.Containers[0]
	for _, tt := range []struct {
		name      string
		want, got any
	}{
		{"ports", []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP}}, c.Ports},
		{"env", &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "status.podIP"}, c.Env[0].ValueFrom.FieldRef},
		{"limits", corev1.ResourceList{"cpu": resource.MustParse("101m"), "memory": resource.MustParse("64Mi")}, c.Resources.Limits},
		{"requests", corev1.ResourceList{"cpu": resource.MustParse("101m"), "memory": resource.MustParse("32Mi")}, c.Resources.Requests},
		{"readiness", &corev1.Probe{
			TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3, ProbeHandler: corev1.ProbeHandler{HTTPGet: http},
		}, c.ReadinessProbe},
		{"liveness", &corev1.Probe{
			TimeoutSeconds: 1, PeriodSeconds: 3, SuccessThreshold: 1, FailureThreshold: 3,
			ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 90, Service: new("")}},
		}, c.LivenessProbe},
		{"preStop", http, c.Lifecycle.PreStop.HTTPGet},
		{"init", corev1.PullAlways, pod.Spec.InitContainers[0].ImagePullPolicy},
		{"volumes", []corev1.Volume{
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
			{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv", Type: new(corev1.HostPathUnset)}}},
			{Name: "info", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items(), DefaultMode: new(int32(0o644))}}},
			{Name: "mixed", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				DefaultMode: new(int32(0o644)), Sources: []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{Items: items()}}},
			}}},
			{Name: "tools", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "t:2", PullPolicy: corev1.PullIfNotPresent}}},
		}, pod.Spec.Volumes},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPullPolicyFollowsTheTag(t *testing.T) {
	for image, want := range map[string]corev1.PullPolicy{
		"i": corev1.PullAlways, "i:latest": corev1.PullAlways, "host:5000/i": corev1.PullAlways, "i:latest@sha256:00": corev1.PullAlways,
		"i:1": corev1.PullIfNotPresent, "host:5000/i:1": corev1.PullIfNotPresent, "i@sha256:00": corev1.PullIfNotPresent,
	} {
		if got := pullPolicyOf(image); got != want {
			t.Errorf("pullPolicyOf(%q) = %s, want %s", image, got, want)
		}
	}
}

func TestDecodeWarns(t *testing.T) {
	tests := []struct {
		name string
		text string
		want []string
	}{
		{name: "unknown field", text: plain + "    imagePullPolcy: Never\n", want: []string{
			`line 9: spec.containers[0].imagePullPolcy: unknown field; did you mean "imagePullPolicy"?`,
		}},
		{name: "field set twice", text: plain + "    image: i:2\n", want: []string{
			"line 9: spec.containers[0].image: set twice, first on line 8; the last one counts",
		}},
		{name: "what an API server sets", text: strings.Replace(plain, "  name: web\n", "  name: web\n  creationTimestamp: null\n"+
			"  resourceVersion: \"7\"\n  deletionTimestamp: 2026-01-01T00:00:00Z\n  annotations: {kubernetes.io/config.hash: x}\n", 1) + "status: {phase: Running}\n", want: []string{
			"line 6: metadata.resourceVersion: has no meaning in a manifest and is dropped",
			"line 7: metadata.deletionTimestamp: has no meaning in a manifest and is dropped",
			"line 8: metadata.annotations[kubernetes.io/config.hash]: is the node's to write and is replaced",
			"line 13: status: has no meaning in a manifest and is dropped",
		}},
		{name: "another node", text: plain + "  nodeName: b\n", want: []string{
			`line 9: spec.nodeName: is "b"; a static pod runs on the node that reads it, "Node-A"`,
		}},
		{name: "further documents", text: plain + "---\nkind: Service\napiVersion: v1\n---\n" + plain + "---\n# end\n", want: []string{
			`line 10: kind: is "Service", must be Pod, ConfigMap or Secret; one pod in each file`,
			"line 13: a second Pod in one file is not run; give it a file of its own",
		}},
		{name: "class without value", text: plain + "  priorityClassName: system-node-critical\n", want: []string{
			"line 9: spec.priorityClassName: has no effect without spec.priority: a node does not look up classes",
		}},
		{name: "value without class", text: plain + "  priority: 5\n", want: []string{
			"line 9: spec.priority: is set without spec.priorityClassName",
		}},
		{name: "the priority of static pods", text: plain + "  priority: 2000001000\n  priorityClassName: system-node-critical\n"},
		{name: "relative mount path", text: plain + "    volumeMounts: [{name: v, mountPath: data}]\n  volumes: [{name: v}]\n", want: []string{
			`line 9: spec.containers[0].volumeMounts[0].mountPath: is "data", not an absolute path; it is mounted at "/data"`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := decodeOK(t, tt.text)
			var got []string
			for _, w := range m.Warnings {
				got = append(got, w.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if m.Pod.DeletionTimestamp != nil || m.Pod.Status.Phase != corev1.PodPending {
				t.Errorf("deletionTimestamp %v, phase %s", m.Pod.DeletionTimestamp, m.Pod.Status.Phase)
			}
		})
	}
}

func TestStrictDecoderRefusesWhatItWouldWarnOf(t *testing.T) {
	_, err := decoder{node: "node-a", strict: true}.decode([]byte(plain + "    imagePullPolcy: Never\n"))
	bad, ok := errors.AsType[*InvalidError](err)
	if !ok || len(bad.Problems) != 1 || bad.Problems[0].Line != 9 {
		t.Errorf("error %v, want one about line 9", err)
	}
}

func TestDecodeRefusesWhatIsNoPod(t *testing.T) {
	tests := []struct {
		name, text, want string
	}{
		{name: "empty", text: "", want: "holds no object; to stop a pod, remove its file"},
		{name: "comments only", text: "# apiVersion: v1\n", want: "holds no object; to stop a pod, remove its file"},
		{name: "no YAML", text: "a: b: c\n", want: "line 1: not YAML or JSON: mapping values are not allowed in this context"},
		{name: "prose", text: "remember to rotate\n", want: "line 1: not an object of the API; it must begin with apiVersion: v1 and kind: Pod"},
		{name: "no kind", text: "apiVersion: v1\n", want: "line 1: without apiVersion or kind; write apiVersion: v1 and kind: Pod"},
		{name: "another kind", text: "apiVersion: v1\nkind: PodList\n", want: `line 2: kind: is "PodList", must be Pod, ConfigMap or Secret; one pod in each file`},
		{name: "another version", text: "apiVersion: v2\nkind: Pod\n", want: `line 1: apiVersion: is "v2", must be v1`},
		{name: "no name", text: "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {containers: [{name: a, image: i}]}\n", want: "line 3: metadata.name: required"},
		{
			name: "wrong types, all of them", text: plain + "    ports: [{containerPort: http}]\n    resources: {limits: {cpu: much}}\n",
			want: `line 9: spec.containers[0].ports[0].containerPort: is "http", must be a whole number of 32 bits; ` +
				"line 10: spec.containers[0].resources.limits[cpu]: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
		},
		{name: "too large", text: strings.Repeat("#", MaxBytes+1), want: "is larger than 10485760 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.text), "node-a")
			if err == nil {
				t.Fatal("no error")
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUIDIsStableAcrossReleases(t *testing.T) {
	// Do not change this value: with another UID every static pod of every node
	// restarts. It belongs to the canonical form in identity.go.
	if got := decodeOK(t, plain).Pod.UID; got != plainUID {
		t.Errorf("UID %s, want %s", got, plainUID)
	}
}

func TestUIDFollowsTheContent(t *testing.T) {
	of := func(text, node string) string {
		m, err := Decode([]byte(text), node)
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Pod.UID)
	}
	base := of(plain, "node-a")
	for name, text := range map[string]string{
		"a comment":         "# hello\n" + plain,
		"JSON":              `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web"},"spec":{"containers":[{"image":"i:1","name":"app"}]}}`,
		"the namespace":     strings.Replace(plain, "  name: web\n", "  name: web\n  namespace: default\n", 1),
		"a zero value":      plain + "  hostNetwork: false\n",
		"a null":            plain + "  volumes:\n",
		"a node annotation": strings.Replace(plain, "  name: web\n", "  name: web\n  annotations: {kubernetes.io/config.hash: x}\n", 1),
		"an unknown field":  plain + "  colour: blue\n",
		"a status":          plain + "status: {phase: Running}\n",
	} {
		if of(text, "node-a") != base {
			t.Errorf("%s changes the UID", name)
		}
	}
	for name, text := range map[string]string{
		"the image":        strings.Replace(plain, "i:1", "i:2", 1),
		"the name":         strings.Replace(plain, "name: web", "name: wob", 1),
		"a label":          strings.Replace(plain, "  name: web\n", "  name: web\n  labels: {a: b}\n", 1),
		"an annotation":    strings.Replace(plain, "  name: web\n", "  name: web\n  annotations: {a: b}\n", 1),
		"an emptyDir":      plain + "  volumes: [{name: v, emptyDir: {}}]\n",
		"a downwardAPI":    plain + "  volumes: [{name: v, downwardAPI: {}}]\n",
		"a stated default": plain + "  restartPolicy: Always\n",
	} {
		if of(text, "node-a") == base {
			t.Errorf("%s does not change the UID", name)
		}
	}
	if of(plain, "node-b") == base {
		t.Error("the node does not change the UID")
	}
	if of(plain+"    resources: {limits: {cpu: 1000m}}\n", "node-a") != of(plain+"    resources: {limits: {cpu: 1}}\n", "node-a") {
		t.Error("1000m and 1 have different UIDs")
	}
}

func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		plain, "", "---\n", "a: b: c", `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"},"spec":{"containers":[null]}}`,
		plain + "    ports: [{containerPort: 80, hostPort: 80}]\n    resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}\n",
		plain + "    env: [{name: A, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]\n    livenessProbe: {exec: {command: [a]}}\n",
		plain + "  volumes: [{name: a, hostPath: {path: /}}, {name: b, projected: {sources: [null]}}, {name: c, nfs: {}}]\n",
		plain + "    securityContext: {runAsUser: -1, seccompProfile: {}, appArmorProfile: {type: Localhost}}\n  dnsConfig: {options: [{}]}\n",
		plain + "---\n" + plain + "---\nkind: Secret\napiVersion: v1\n", "kind: Secret\napiVersion: v1\nmetadata: {name: a}\nstringData: {k: v}\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\nbinaryData: {k: AA==}\n",
		plain + "    envFrom: [{configMapRef: {name: a}}]\n---\nkind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\n", "apiVersion: v1\nkind: Pod\nmetadata: []\nspec: 7\n",
		"apiVersion: v1\nkind: Pod\nmetadata: {name: x, deletionTimestamp: 1}\n", "&a [*a]", plain + "    lifecycle: {preStop: {sleep: {seconds: 1}}}\n  initContainers: [{}]\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data, "node-a")
		if err != nil {
			bad, ok := errors.AsType[*InvalidError](err)
			if !ok || len(bad.Problems) == 0 {
				t.Fatalf("error of type %T without problems: %v", err, err)
			}
			return
		}
		p := m.Pod
		if p == nil && len(m.ConfigMaps)+len(m.Secrets) > 0 {
			return
		}
		if !strings.HasSuffix(p.Name, "-node-a") || p.Namespace == "" || p.UID == "" || p.Annotations[AnnotationHash] != string(p.UID) || len(p.Spec.Containers) == 0 {
			t.Errorf("incomplete pod: %s/%s uid %s", p.Namespace, p.Name, p.UID)
		}
		again, err := Decode(data, "node-a")
		if err != nil {
			t.Fatalf("the second time: %v", err)
		}
		if diff := cmp.Diff(m.Pod, again.Pod); diff != "" {
			t.Errorf("two pods from the same bytes (-first +second):\n%s", diff)
		}
	})
}

func TestUIDOfARichManifestIsStable(t *testing.T) {
	// As TestUIDIsStableAcrossReleases: the value is not to change.
	const text = `apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: kube-system
  labels: {tier: data, app.example/part: db}
  annotations: {note: "<a & b>", kubernetes.io/config.seen: x}
spec:
  hostNetwork: true
  hostPID: false
  priority: 2000001000
  priorityClassName: system-node-critical
  terminationGracePeriodSeconds: 0
  initContainers:
  - {name: init, image: "i:1", command: [sh, -c, "test 1 -lt 2 && exit"]}
  containers:
  - name: db
    image: db@sha256:0000000000000000000000000000000000000000000000000000000000000000
    env: [{name: EMPTY, value: ""}, {name: NUM, value: "1"}]
    ports: [{containerPort: 5432}]
    resources: {requests: {cpu: 0.5, memory: 1024Mi}, limits: {}}
    livenessProbe: {tcpSocket: {port: db}, periodSeconds: 5}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes:
  - {name: data, hostPath: {path: /var/db}}
  - {name: tmp, emptyDir: {sizeLimit: 1000000}}
`
	const want = "5b6157c6aab766166786330809f9fda5"
	if got := decodeOK(t, text).Pod.UID; got != want {
		t.Errorf("UID %s, want %s", got, want)
	}
}

func TestLongListsOfProblemsAreCutInTheError(t *testing.T) {
	_, err := Decode([]byte(plain+strings.Repeat("  - {name: app, image: i}\n", 15)), "node-a")
	bad, ok := errors.AsType[*InvalidError](err)
	if !ok || len(bad.Problems) != 15 {
		t.Fatalf("error %v, want 15 problems", err)
	}
	if !strings.HasSuffix(err.Error(), "; and 5 more") {
		t.Errorf("the error ends with %q", err.Error()[len(err.Error())-40:])
	}
}
