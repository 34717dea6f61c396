package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/internal/strictyaml"
)

// The type that a configuration file must name in its first lines.
const (
	APIVersion = "kubelet.config.k8s.io/v1beta1"
	Kind       = "KubeletConfiguration"
)

// Severity says what a Problem means for a program that starts with the file.
type Severity uint8

// The severities, from the harmless one on.
const (
	// Warning: the program runs, without the field.
	Warning Severity = iota + 1
	// Error: the field says something that its owner cannot have meant; a kubelet
	// does not start with it.
	Error
)

// String returns "warning" or "error".
func (s Severity) String() string {
	switch s {
	case Warning:
		return "warning"
	case Error:
		return "error"
	}
	return fmt.Sprintf("severity %d", uint8(s))
}

// Problem is one thing that is wrong with one field of a configuration.
type Problem struct {
	// File is the path of the file, where LoadFiles read several.
	File string
	// Line counts from 1; 0 when the problem has no place in the file.
	Line     int
	Field    string // like "authentication.x509.clientCAFile"
	Severity Severity
	Message  string
}

// String returns "line 7: healthzPrt: unknown field", after the file if that is
// known, and without the line if there is none.
func (p Problem) String() string {
	s := p.Field + ": " + p.Message
	if p.Line > 0 {
		s = fmt.Sprintf("line %d: %s", p.Line, s)
	}
	if p.File != "" {
		s = p.File + ": " + s
	}
	return s
}

// Err joins the problems of severity Error; nil when there are none.
func Err(problems []Problem) error {
	var errs []error
	for _, p := range problems {
		if p.Severity == Error {
			errs = append(errs, errors.New(p.String()))
		}
	}
	return errors.Join(errs...)
}

// LoadFile is Load on the content of a file; its errors name the path.
func LoadFile(path string, honoured []string) (*kubeletv1beta1.KubeletConfiguration, []Problem, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("read kubelet configuration: %w", err)
	}
	cfg, problems, err := Load(data, honoured)
	if err != nil {
		return nil, nil, fmt.Errorf("kubelet configuration %s: %w", path, err)
	}
	return cfg, problems, nil
}

// Load reads a KubeletConfiguration in YAML or JSON, fills in the defaults of the
// kubelet, and says which fields the file holds in vain.
//
// Honoured are the fields that the calling program acts on, like "healthzPort" or
// "authentication.x509.clientCAFile"; a field stands for all below it. Every other
// field that is set to something is a Warning. Unknown fields, fields that are
// set twice and values that no kubelet accepts are Errors. Problems come in
// the order of lines. The returned configuration is usable with them, but what
// they name is not in it as the file's owner means it.
//
// The error says why there is no configuration at all: no YAML, another kind, a
// value of the wrong type, or a name in honoured that the type does not have.
func Load(data []byte, honoured []string) (*kubeletv1beta1.KubeletConfiguration, []Problem, error) {
	doc, err := single(data)
	if err != nil {
		return nil, nil, errors.Join(checkHonoured(honoured), err)
	}
	return load([]file{{doc: doc}}, honoured)
}

// single returns the one document of the right kind.
func single(data []byte) (strictyaml.Document, error) {
	docs, err := strictyaml.Parse(data)
	if err != nil {
		return strictyaml.Document{}, fmt.Errorf("not YAML or JSON: %w", err)
	}
	if len(docs) == 0 {
		return strictyaml.Document{}, fmt.Errorf("is empty; it must begin with apiVersion: %s and kind: %s", APIVersion, Kind)
	}
	if len(docs) > 1 {
		return strictyaml.Document{}, fmt.Errorf("line %d: a second document; write one configuration in one file", docs[1].Line)
	}
	doc := docs[0]
	var t metav1.TypeMeta
	if err := doc.Decode(&t); err != nil {
		return strictyaml.Document{}, fmt.Errorf("line %d: not an object; it must begin with apiVersion: %s and kind: %s", doc.Line, APIVersion, Kind)
	}
	if t.Kind != Kind {
		return strictyaml.Document{}, fmt.Errorf("line %d: kind is %q; write kind: %s", doc.LineOf("kind"), t.Kind, Kind)
	}
	if t.APIVersion != APIVersion {
		return strictyaml.Document{}, fmt.Errorf("line %d: apiVersion is %q; write apiVersion: %s", doc.LineOf("apiVersion"), t.APIVersion, APIVersion)
	}
	return doc, nil
}

// unhonoured returns the fields that are set and stand under no honoured name. A
// struct in which some fields are honoured is entered. A zero value is no
// setting: the kubelet takes it for "use the default".
func unhonoured(cfg *kubeletv1beta1.KubeletConfiguration, honoured []string) []string {
	var fields []string
	collect(reflect.ValueOf(cfg).Elem(), "", honoured, &fields)
	return fields
}

func collect(v reflect.Value, prefix string, honoured []string, fields *[]string) {
	for i := range v.NumField() {
		name := jsonName(v.Type().Field(i))
		if name == "" {
			continue // kind and apiVersion
		}
		path := prefix + name
		value := reflect.Indirect(v.Field(i))
		switch {
		case isEmpty(v.Field(i)) || slices.Contains(honoured, path):
		case value.Kind() == reflect.Struct && entered(path, honoured):
			collect(value, path+".", honoured, fields)
		default:
			*fields = append(*fields, path)
		}
	}
}

// isEmpty goes into structs, because a quantity that is written as "0" differs from
// one that is not written.
func isEmpty(v reflect.Value) bool {
	if !v.CanInterface() || v.Kind() != reflect.Struct {
		return v.IsZero()
	}
	if z, ok := reflect.TypeAssert[interface{ IsZero() bool }](v.Addr()); ok {
		return z.IsZero()
	}
	for _, f := range v.Fields() {
		if !isEmpty(f) {
			return false
		}
	}
	return true
}

func entered(path string, honoured []string) bool {
	return slices.ContainsFunc(honoured, func(h string) bool { return strings.HasPrefix(h, path+".") })
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// checkHonoured refuses names that the type does not have, so that a slip in a
// program does not turn into a warning for its users.
func checkHonoured(honoured []string) error {
	known := paths(reflect.TypeFor[kubeletv1beta1.KubeletConfiguration](), "")
	for _, h := range honoured {
		if !known[h] {
			return fmt.Errorf("honoured field %q is not in %s %s", h, APIVersion, Kind)
		}
	}
	return nil
}

// paths returns the names of all fields of a struct and of the structs in it.
func paths(t reflect.Type, prefix string) map[string]bool {
	known := map[string]bool{}
	for f := range t.Fields() {
		name := jsonName(f)
		if name == "" {
			continue
		}
		known[prefix+name] = true
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		if ft.Kind() == reflect.Struct && ft != reflect.TypeFor[metav1.Duration]() {
			maps.Copy(known, paths(ft, prefix+name+"."))
		}
	}
	return known
}

// AllFields returns the name of every field, for programs that check files for
// others and act on none of it: with it, Load reports what is wrong and nothing
// that is in vain.
func AllFields() []string {
	var names []string
	for f := range reflect.TypeFor[kubeletv1beta1.KubeletConfiguration]().Fields() {
		if name := jsonName(f); name != "" {
			names = append(names, name)
		}
	}
	return names
}
