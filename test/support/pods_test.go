package support_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// specimens reads the objects of a file of testdata.
func specimens[T any](t *testing.T, name string) []*T {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var out []*T
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		object := new(T)
		if err := yaml.UnmarshalStrict(document, object); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, object)
	}
}

// without returns a copy of a pod without the n-th of its fields that are set, or with
// another value where it cannot be missing.
func without(pod *corev1.Pod, n int) *corev1.Pod {
	c := pod.DeepCopy()
	f := set(reflect.ValueOf(&c.Spec).Elem(), "spec")[n]
	if f.value.Kind() == reflect.String && required[f.key] {
		f.value.SetString(f.value.String() + "-2")
	} else {
		f.value.SetZero()
	}
	return c
}

// required are fields without which a pod cannot be.
var required = map[string]bool{
	"Container.Name": true, "EphemeralContainerCommon.Name": true, "Volume.Name": true,
}

// plain is a pod with one container, for fields that are looked at alone.
func plain() *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Image: "img.example/app:1"}},
	}}
	pod.Namespace, pod.Name, pod.UID = "shop", "plain", "uid-plain"
	return pod
}

// pair is a pod, and the same with one field more.
type pair struct {
	path       string
	base, with *corev1.Pod
}

// alone returns pairs of pods for a field, given as "Type.Field", one for each place at
// which it can be.
func alone(key string, goOn func(key string) bool) []pair {
	owner, name, _ := strings.Cut(key, ".")
	var out []pair
	for _, way := range ways(reflect.TypeFor[corev1.PodSpec](), owner, goOn) {
		p := pair{base: plain(), with: plain()}
		way.follow(reflect.ValueOf(&p.base.Spec).Elem())
		v := way.follow(reflect.ValueOf(&p.with.Spec).Elem())
		fill(v.FieldByName(name))
		f, _ := v.Type().FieldByName(name)
		p.path = join(way.path(), jsonName(f))
		out = append(out, p)
	}
	return out
}

// way leads from a type to one below it: the fields to follow.
type way []reflect.StructField

// path is the way in JSON, in first elements of lists.
func (w way) path() string {
	path := "spec"
	for _, f := range w {
		path = join(path, jsonName(f))
		if f.Type.Kind() == reflect.Slice {
			path += "[0]"
		}
	}
	return path
}

// follow goes the way from v, and makes what is missing.
func (w way) follow(v reflect.Value) reflect.Value {
	for _, f := range w {
		v = v.FieldByIndex(f.Index)
		if v.Kind() == reflect.Slice {
			if v.Len() == 0 {
				v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			}
			v = v.Index(0)
		}
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		if n := v.FieldByName("Name"); n.IsValid() && n.Kind() == reflect.String && n.String() == "" {
			n.SetString("x")
		}
	}
	return v
}

// ways returns how to come from a type to the one of a name, through fields for which
// goOn holds.
func ways(from reflect.Type, to string, goOn func(key string) bool) []way {
	if from.Name() == to {
		return []way{nil}
	}
	var out []way
	for f := range from.Fields() {
		t := f.Type
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || isLeaf(t) || !goOn(from.Name()+"."+f.Name) {
			continue
		}
		for _, rest := range ways(t, to, goOn) {
			out = append(out, append(way{f}, rest...))
		}
	}
	return out
}
