package podspec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
)

// objects has one ConfigMap and one Secret, both called conf, and fails for the name
// broken.
type objects struct{}

func (objects) ConfigMap(namespace, name string) (*corev1.ConfigMap, error) {
	if err := unless(namespace, name); err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{Data: map[string]string{"b": "2", "a": "1"}}, nil
}

func (objects) Secret(namespace, name string) (*corev1.Secret, error) {
	if err := unless(namespace, name); err != nil {
		return nil, err
	}
	return &corev1.Secret{Data: map[string][]byte{"key": []byte("s")}}, nil
}

func unless(namespace, name string) error {
	switch {
	case namespace == "default" && name == "conf":
		return nil
	case name == "broken":
		return errors.New("no answer")
	}
	return apierrors.NewNotFound(corev1.Resource("things"), name)
}

// files are the files of a volume by directory and name.
type files map[string]string

func (f files) ReadFile(dir, name string) ([]byte, error) {
	content, ok := f[dir+" "+name]
	if !ok {
		return nil, errors.New("no such file")
	}
	return []byte(content), nil
}

// variables returns the environment of the container as NAME=value.
func variables(t *testing.T, pod *corev1.Pod, run podspec.Run) ([]string, error) {
	t.Helper()
	spec, err := podspec.Container(pod, &pod.Spec.Containers[0], node(), run)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, kv := range spec.Config.GetEnvs() {
		out = append(out, kv.GetKey()+"="+string(kv.GetValue()))
	}
	return out, nil
}

func TestVariablesFromObjects(t *testing.T) {
	yes := true
	named := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	fromMap := func(name string, optional *bool, prefix string) corev1.EnvFromSource {
		return corev1.EnvFromSource{Prefix: prefix, ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named(name), Optional: optional}}
	}
	fromSecret := corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("conf")}}
	mapKey := func(name, key string, optional *bool) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named(name), Key: key, Optional: optional}}}}
	}
	secretKey := func(name, key string, optional *bool) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named(name), Key: key, Optional: optional}}}}
	}
	tests := []struct {
		name  string
		from  []corev1.EnvFromSource
		env   []corev1.EnvVar
		want  []string
		fails string
	}{
		{name: "whole objects, in order, with a prefix", from: []corev1.EnvFromSource{fromMap("conf", nil, "P_"), fromSecret}, want: []string{"P_a=1", "P_b=2", "key=s"}},
		{
			name: "a variable replaces one of an object and refers to another", from: []corev1.EnvFromSource{fromMap("conf", nil, "")},
			env: []corev1.EnvVar{{Name: "a", Value: "own $(b)"}}, want: []string{"a=own 2", "b=2"},
		},
		{name: "no object", from: []corev1.EnvFromSource{fromMap("none", nil, "")}, fails: `configmap "none" not found`},
		{name: "no object, optional", from: []corev1.EnvFromSource{fromMap("none", &yes, "")}},
		{name: "no answer, optional", from: []corev1.EnvFromSource{fromMap("broken", &yes, "")}, fails: `get configmap "broken": no answer`},
		{name: "key", env: mapKey("conf", "a", nil), want: []string{"X=1"}},
		{name: "no key", env: mapKey("conf", "z", nil), fails: "environment variable X: couldn't find key z in ConfigMap default/conf"},
		{name: "no key, optional", env: mapKey("conf", "z", &yes)},
		{name: "no object for a key", env: mapKey("none", "a", nil), fails: `environment variable X: configmap "none" not found`},
		{name: "key of a Secret", env: secretKey("conf", "key", nil), want: []string{"X=s"}},
		{name: "no key of a Secret", env: secretKey("conf", "z", nil), fails: "environment variable X: couldn't find key z in Secret default/conf"},
		{name: "no Secret", env: secretKey("none", "key", nil), fails: `environment variable X: secret "none" not found`},
		{name: "no Secret, optional", env: secretKey("none", "key", &yes)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web(onApp(func(c *corev1.Container) { c.EnvFrom, c.Env = tt.from, tt.env }))
			got, err := variables(t, pod, podspec.Run{References: podspec.References{Objects: objects{}}})
			if text := fmt.Sprint(err); tt.fails != "" && text != tt.fails || tt.fails == "" && err != nil {
				t.Errorf("error is %q, want %q", text, tt.fails)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVariablesFromServices(t *testing.T) {
	service := func(namespace, name, ip string, ports ...corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ClusterIP: ip, Ports: ports}}
	}
	services := []*corev1.Service{
		service("default", "db-main", "fd00::1", corev1.ServicePort{Name: "sql-rw", Port: 5432}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}),
		service("default", "headless", "None", corev1.ServicePort{Port: 1}),
		service("other", "stranger", "10.96.0.9", corev1.ServicePort{Port: 1}),
		service("default", "kubernetes", "10.96.0.1", corev1.ServicePort{Name: "https", Port: 443}),
	}
	master := []string{
		"KUBERNETES_SERVICE_HOST=10.96.0.1", "KUBERNETES_SERVICE_PORT=443", "KUBERNETES_SERVICE_PORT_HTTPS=443",
		"KUBERNETES_PORT=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP=tcp://10.96.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO=tcp",
		"KUBERNETES_PORT_443_TCP_PORT=443", "KUBERNETES_PORT_443_TCP_ADDR=10.96.0.1",
	}
	run := podspec.Run{References: podspec.References{Services: services}}
	pod := web(onApp(func(c *corev1.Container) {
		c.Env = []corev1.EnvVar{{Name: "URL", Value: "$(DB_MAIN_PORT)"}, {Name: "DB_MAIN_SERVICE_HOST", Value: "own"}}
	}))
	got, err := variables(t, pod, run)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{
		"URL=tcp://[fd00::1]:5432", "DB_MAIN_SERVICE_HOST=own", "DB_MAIN_SERVICE_PORT=5432", "DB_MAIN_SERVICE_PORT_SQL_RW=5432", "DB_MAIN_SERVICE_PORT_DNS=53",
		"DB_MAIN_PORT=tcp://[fd00::1]:5432", "DB_MAIN_PORT_5432_TCP=tcp://[fd00::1]:5432", "DB_MAIN_PORT_5432_TCP_PROTO=tcp",
		"DB_MAIN_PORT_5432_TCP_PORT=5432", "DB_MAIN_PORT_5432_TCP_ADDR=fd00::1", "DB_MAIN_PORT_53_UDP=udp://[fd00::1]:53",
		"DB_MAIN_PORT_53_UDP_PROTO=udp", "DB_MAIN_PORT_53_UDP_PORT=53", "DB_MAIN_PORT_53_UDP_ADDR=fd00::1",
	}, master...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("variables (-want +got):\n%s", diff)
	}
	own := append([]*corev1.Service{service("shop", "kubernetes", "10.96.0.7", corev1.ServicePort{Port: 1})}, services...)
	pod.Namespace, pod.Spec.Containers[0].Env = "shop", nil
	if got, err = variables(t, pod, podspec.Run{References: podspec.References{Services: own}}); err != nil || got[0] != "KUBERNETES_SERVICE_HOST=10.96.0.7" {
		t.Errorf("variables where the namespace has a Service of that name are %v (%v), want its own", got, err)
	}
	no := false
	pod.Namespace, pod.Spec.EnableServiceLinks, pod.Spec.Containers[0].Env = "default", &no, nil
	if got, err = variables(t, pod, run); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(master, got); diff != "" {
		t.Errorf("variables without links (-want +got):\n%s", diff)
	}
}

// TestVariablesWaitForServices: a container does not start without the variables of
// Services only because nobody has looked for them yet.
func TestVariablesWaitForServices(t *testing.T) {
	why := errors.New("services have not yet been read at least once, cannot construct envvars")
	if _, err := variables(t, web(), podspec.Run{References: podspec.References{NotYet: why}}); !errors.Is(err, why) {
		t.Errorf("error is %v, want %v", err, why)
	}
}

func TestVariablesFromResources(t *testing.T) {
	ref := func(container, name, divisor string) *corev1.EnvVarSource {
		r := &corev1.ResourceFieldSelector{ContainerName: container, Resource: name}
		if divisor != "" {
			r.Divisor = resource.MustParse(divisor)
		}
		return &corev1.EnvVarSource{ResourceFieldRef: r}
	}
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	tests := []struct {
		name        string
		from        *corev1.EnvVarSource
		edit        func(*corev1.Pod)
		want, fails string
	}{
		{name: "cores, rounded up", from: ref("", "limits.cpu", ""), want: "2"},
		{name: "millicores", from: ref("", "limits.cpu", "1m"), want: "1500"},
		{name: "megabytes, rounded up", from: ref("", "requests.memory", "1M"), want: "68"},
		{name: "bytes", from: ref("", "requests.memory", ""), want: "67108864"},
		{name: "another container", from: ref("side", "requests.cpu", "1m"), want: "100"},
		{name: "no request", from: ref("side", "requests.memory", ""), want: "0"},
		{name: "a limit the node sets", from: ref("side", "limits.memory", "1Gi"), want: "6"},
		{name: "a limit the pod sets", from: ref("side", "limits.memory", "1Mi"), edit: func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("1", "256Mi")}
		}, want: "256"},
		{name: "huge pages", from: ref("", "limits.hugepages-2Mi", "2Mi"), want: "3"},
		{name: "no such container", from: ref("none", "limits.cpu", ""), fails: "environment variable X: container none not found"},
		{name: "no such resource", from: ref("", "limits.disk", ""), fails: "environment variable X: unsupported container resource : limits.disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web(onApp(func(c *corev1.Container) {
				c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: tt.from}}
				c.Resources = corev1.ResourceRequirements{Requests: list("1", "64Mi"), Limits: list("1500m", "128Mi")}
				c.Resources.Limits["hugepages-2Mi"] = resource.MustParse("6Mi")
			}))
			pod.Spec.InitContainers = []corev1.Container{{Name: "side", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("100m")}}}}
			if tt.edit != nil {
				tt.edit(pod)
			}
			n := node()
			n.Allocatable = list("4", "6Gi")
			spec, err := podspec.Container(pod, &pod.Spec.Containers[0], n, podspec.Run{})
			if tt.fails != "" {
				if fmt.Sprint(err) != tt.fails {
					t.Errorf("error is %v, want %s", err, tt.fails)
				}
				return
			}
			if err != nil || string(spec.Config.GetEnvs()[0].GetValue()) != tt.want {
				t.Errorf("variables are %v (%v), want %s", spec.Config.GetEnvs(), err, tt.want)
			}
		})
	}
}

func TestVariablesFromFiles(t *testing.T) {
	yes := true
	const dir = "/pods/u1/v "
	there := files{dir + "env": "A='1'\nEMPTY=''\n", dir + "bad": "A=1\n"}
	tests := []struct {
		name, volume, file, key string
		optional                *bool
		want                    []string
		fails                   string
	}{
		{name: "value", volume: "v", file: "env", key: "A", want: []string{"X=1"}},
		{name: "no key", volume: "v", file: "env", key: "B", fails: `environment variable X: environment variable key "B" not found in file "env"`},
		{name: "empty value counts as none", volume: "v", file: "env", key: "EMPTY", fails: `environment variable X: environment variable key "EMPTY" not found in file "env"`},
		{name: "no key, optional", volume: "v", file: "env", key: "B", optional: &yes},
		{name: "no file, optional", volume: "v", file: "none", key: "A", optional: &yes, fails: "environment variable X: couldn't parse env file: no such file"},
		{name: "bad file", volume: "v", file: "bad", key: "A", fails: "environment variable X: couldn't parse env file: line 1: value must be in single quotes"},
		{name: "no volume", volume: "w", file: "env", key: "A", fails: `environment variable X: cannot find the volume "w" referenced by FileKeyRef`},
		{name: "not the pod's own volume", volume: "host", file: "env", key: "A", fails: `environment variable X: volume "host" cannot be read for FileKeyRef`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := web(onApp(func(c *corev1.Container) {
				c.Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: tt.volume, Path: tt.file, Key: tt.key, Optional: tt.optional}}}}
			}))
			pod.Spec.Volumes = []corev1.Volume{{Name: "v"}, {Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
			got, err := variables(t, pod, podspec.Run{
				References: podspec.References{Files: there}, Volumes: map[string]podspec.Volume{"v": {Path: "/pods/u1/v"}, "host": {Path: "/"}},
			})
			if text := fmt.Sprint(err); tt.fails != "" && text != tt.fails || tt.fails == "" && err != nil {
				t.Errorf("error is %q, want %q", text, tt.fails)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("variables (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseEnvFile(t *testing.T) {
	const file = "# comment\n\n  A='1' # one\nB='two\nlines'\nC='it is #2'\nA='again'\nD= 'x'\n\tE='$A'\r\n"
	tests := []struct{ name, content, key, want, fails string }{
		{name: "blanks before, comment behind", content: file, key: "A", want: "1"},
		{name: "several lines", content: file, key: "B", want: "two\nlines"},
		{name: "comment sign inside", content: file, key: "C", want: "it is #2"},
		{name: "blanks behind the sign", content: file, key: "D"},
		{name: "nothing is expanded", content: file, key: "E", want: "$A"},
		{name: "none", content: file, key: "Z"},
		{name: "no sign", content: "A", key: "A", fails: "line 1: missing '='"},
		{name: "no name", content: "='1'", key: "A", fails: "line 1: empty variable name"},
		{name: "blank before the sign", content: "\nA ='1'", key: "A", fails: "line 2: blanks before '='"},
		{name: "no quotes", content: "A=\"1\"", key: "A", fails: "line 1: value must be in single quotes"},
		{name: "more behind", content: "A='1'x", key: "A", fails: "line 1: unexpected content after the closing quote"},
		{name: "open quote", content: "X='1'\nA='1\n2\n", key: "A", fails: "line 2: quote is not closed"},
		{name: "a mistake after what is looked for does not matter", content: "A='1'\nB", key: "A", want: "1"},
		{name: "a long line", content: "A='" + strings.Repeat("x", 64<<10) + "'", key: "A", fails: "line 1: longer than 65536 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := podspec.ParseEnvFile([]byte(tt.content), tt.key)
			if text := fmt.Sprint(err); tt.fails != "" && text != tt.fails || tt.fails == "" && err != nil || got != tt.want {
				t.Errorf("value %q, error %q; want %q, %q", got, text, tt.want, tt.fails)
			}
		})
	}
}

// FuzzParseEnvFile checks that a value that can be quoted comes back as it was, and
// that nothing breaks the parser.
func FuzzParseEnvFile(f *testing.F) {
	f.Add("A='1'\n", "v")
	f.Add("# x\nB='two\nlines' # y", "a\nb")
	f.Add("=", "")
	f.Fuzz(func(t *testing.T, content, value string) {
		_, _ = podspec.ParseEnvFile([]byte(content), "A")
		if strings.ContainsAny(value, "'\r") || len(value) > 1000 {
			return
		}
		got, err := podspec.ParseEnvFile([]byte("KEY='"+value+"'\n"+content), "KEY")
		if err != nil || got != value {
			t.Errorf("value %q came back as %q (%v)", value, got, err)
		}
	})
}
