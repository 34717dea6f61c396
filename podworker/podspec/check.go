package podspec

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/nodekit-go/nodekit/podworker/podstatus"
)

// Options say what the agent does beyond this package. The zero value is nothing.
type Options struct {
	// Can are the abilities of the agent. A field that needs another one refuses the
	// pod.
	Can Ability
}

// Problem is one field of a pod that is not honoured.
type Problem struct {
	// Field is the path of the field, as in "spec.containers[0].lifecycle".
	Field string
	// Support is Refused or Warned.
	Support Support
	// Why says in a few words what is missing.
	Why string
}

// String returns "field: why".
func (p Problem) String() string { return p.Field + ": " + p.Why }

// Refusal returns an error that names every refused field, nil if there is none.
func Refusal(problems []Problem) error {
	var texts []string
	for _, p := range problems {
		if p.Support == Refused {
			texts = append(texts, p.String())
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return &RefusedError{Fields: texts}
}

// RefusedError says that a pod asks for something this node cannot do.
type RefusedError struct {
	// Fields has "field: why" for each refused field.
	Fields []string
}

// Error names every refused field.
func (e *RefusedError) Error() string {
	return "pod is not supported: " + strings.Join(e.Fields, "; ")
}

// Check returns every field of the pod that is not honoured, in the order of the
// spec. The pod may run only if [Refusal] of the list is nil.
func Check(pod *corev1.Pod, opt Options) []Problem {
	c := checker{opt: opt}
	c.names(pod)
	c.annotations(pod.Annotations)
	c.value("spec", reflect.ValueOf(&pod.Spec).Elem())
	c.hostUsers(&pod.Spec)
	c.restarts(&pod.Spec)
	c.labels(&pod.Spec)
	return c.problems
}

// labels tells of volumes that are not labelled as the pod asks, on a node where labels
// mean something. The result is the same, but it takes longer.
func (c *checker) labels(spec *corev1.PodSpec) {
	sc := spec.SecurityContext
	if !c.opt.Can.Has(SELinux) || sc == nil || sc.SELinuxChangePolicy == nil || *sc.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive {
		return
	}
	c.add("spec.securityContext.seLinuxChangePolicy", Warned, "the runtime labels volumes file by file, not by an option of their mount")
}

// hostUsers looks at the one bool whose false is what asks for something.
func (c *checker) hostUsers(spec *corev1.PodSpec) {
	switch {
	case spec.HostUsers == nil || *spec.HostUsers:
	case !c.opt.Can.Has(UserNamespaces):
		c.add("spec.hostUsers", Refused, "user namespaces are not supported")
	case spec.HostNetwork || spec.HostPID || spec.HostIPC:
		c.add("spec.hostUsers", Refused, "a pod in namespaces of the host cannot have users of its own")
	}
}

// restarts looks at the restart policies of single containers: Always makes an init
// container a sidecar, everything else needs rules to be followed.
func (c *checker) restarts(spec *corev1.PodSpec) {
	const why = "the restart policy of a container is not followed"
	if c.opt.Can.Has(RestartRules) {
		return
	}
	for i := range spec.Containers {
		if spec.Containers[i].RestartPolicy != nil {
			c.add(fmt.Sprintf("spec.containers[%d].restartPolicy", i), Refused, why)
		}
	}
	for i := range spec.InitContainers {
		if ctr := &spec.InitContainers[i]; ctr.RestartPolicy != nil && !podstatus.IsSidecar(ctr) {
			c.add(fmt.Sprintf("spec.initContainers[%d].restartPolicy", i), Refused, why)
		}
	}
}

// names refuses names that would lead out of the directories they are part of the
// path of. Pods from an API server have better names than that.
func (c *checker) names(pod *corev1.Pod) {
	c.name("metadata.namespace", pod.Namespace)
	c.name("metadata.name", pod.Name)
	c.name("metadata.uid", string(pod.UID))
	for i := range pod.Spec.InitContainers {
		c.name(fmt.Sprintf("spec.initContainers[%d].name", i), pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		c.name(fmt.Sprintf("spec.containers[%d].name", i), pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		c.name(fmt.Sprintf("spec.ephemeralContainers[%d].name", i), pod.Spec.EphemeralContainers[i].Name)
	}
	for i := range pod.Spec.Volumes {
		c.name(fmt.Sprintf("spec.volumes[%d].name", i), pod.Spec.Volumes[i].Name)
	}
}

func (c *checker) name(path, name string) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		c.add(path, Refused, fmt.Sprintf("%q cannot be part of a path", name))
	}
}

// appArmorPrefix is the old way of asking for an AppArmor profile
// (https://kubernetes.io/docs/tutorials/security/apparmor/).
const appArmorPrefix = "container.apparmor.security.beta.kubernetes.io/"

// noAppArmor is why a profile is refused on a node that cannot enforce it.
const noAppArmor = "AppArmor profiles are not supported"

type checker struct {
	opt      Options
	problems []Problem
}

func (c *checker) add(path string, s Support, why string) {
	c.problems = append(c.problems, Problem{Field: path, Support: s, Why: why})
}

func (c *checker) annotations(set map[string]string) {
	for key, value := range set {
		if c.opt.Can.Has(AppArmor) {
			return
		}
		if strings.HasPrefix(key, appArmorPrefix) && value != "unconfined" {
			c.add(fmt.Sprintf("metadata.annotations[%s]", key), Refused, noAppArmor)
		}
	}
}

// value visits a value that is honoured.
func (c *checker) value(path string, v reflect.Value) {
	if why := c.special(path, v); why != "" {
		c.add(path, Refused, why)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.value(path, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.value(fmt.Sprintf("%s[%d]", path, i), v.Index(i))
		}
	case reflect.Struct:
		if !isLeaf(v.Type()) {
			c.fields(path, v)
		}
	default:
	}
}

func (c *checker) fields(path string, v reflect.Value) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if !isSet(v.Field(i)) {
			continue
		}
		at := fieldPath(path, f)
		r, known := fields[v.Type().Name()+"."+f.Name]
		support := r.with(c.opt.Can)
		switch {
		case !known:
			c.add(at, Refused, "the field is not known to this version")
		case support == Honoured:
			c.value(at, v.Field(i))
		case support == Elsewhere:
		case saysNothing(v, i):
		default:
			c.add(at, support, r.why)
		}
	}
}

// saysNothing reports whether a field is a struct without content, as generated
// manifests have them ("affinity: {}"). A probe and the choice of a volume source say
// something even then.
func saysNothing(v reflect.Value, i int) bool {
	f := v.Field(i)
	return f.Kind() == reflect.Pointer && f.Elem().Kind() == reflect.Struct && f.Elem().IsZero() &&
		v.Type() != reflect.TypeFor[corev1.VolumeSource]() && f.Type() != reflect.TypeFor[*corev1.Probe]()
}

// isLeaf reports whether a struct type is a value of its own to the API.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[resource.Quantity]() || t == reflect.TypeFor[intstr.IntOrString]() ||
		t == reflect.TypeFor[corev1.PersistentVolumeClaimTemplate]()
}

// isSet reports whether a field says anything. A pointer to false means what
// leaving the field out means, for every bool but hostUsers, which Check looks at.
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	case reflect.Pointer:
		return !v.IsNil() && (v.Elem().Kind() != reflect.Bool || v.Elem().Bool())
	}
	return !v.IsZero()
}

func fieldPath(path string, f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "" { // embedded
		return path
	}
	return path + "." + name
}
