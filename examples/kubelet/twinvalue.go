package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"

	"github.com/nodekit-go/nodekit/allocatable/config"
	"github.com/nodekit-go/nodekit/lease/nodestatus"
)

// twinValue is the value of a twin, which it reads as the type of its field asks for. It
// implements pflag.Value.
type twinValue struct {
	twin
	kind  reflect.Type
	shown string // the value as text: the default, then what was set
	value any
	set   bool
}

// Set reads the value. Lists and maps grow with each flag.
func (v *twinValue) Set(s string) error {
	value, err := v.parse(s)
	if err != nil {
		return err
	}
	if v.set {
		value = grown(v.value, value)
	}
	v.value, v.set, v.shown = value, true, s
	return nil
}

// String returns the value that was set last, or the default.
func (v *twinValue) String() string { return v.shown }

// Type names the value in the help; that of a switch needs no name.
func (v *twinValue) Type() string {
	if v.isBool() {
		return "bool"
	}
	return "value"
}

func (v *twinValue) isBool() bool { return v.kind.Kind() == reflect.Bool }

// parse reads one value.
func (v *twinValue) parse(s string) (any, error) {
	switch v.field {
	case "registerWithTaints":
		return nodestatus.ParseTaints(s)
	case "reservedMemory":
		return parseReservedMemory(s)
	case "staticPodURLHeader":
		return parseHeaders(s)
	case "logging.vmodule":
		return parseModules(s)
	case "logging.options.text.infoBufferSize", "logging.options.json.infoBufferSize":
		return s, nil
	case "logging.flushFrequency":
		return parseDuration(s)
	case "evictionHard", "evictionSoft":
		return parseMap(s, "<")
	}
	if v.kind == reflect.TypeFor[metav1.Duration]() {
		return parseDuration(s)
	}
	switch v.kind.Kind() {
	case reflect.Bool:
		return strconv.ParseBool(s)
	case reflect.Int32, reflect.Int64, reflect.Uint32:
		return strconv.ParseInt(s, 10, v.kind.Bits())
	case reflect.String:
		return s, nil
	case reflect.Slice:
		return strings.FieldsFunc(s, func(r rune) bool { return r == ',' }), nil
	case reflect.Map:
		if v.kind.Elem().Kind() == reflect.Bool {
			return parseSwitches(s)
		}
		return parseMap(s, "=")
	}
	return nil, fmt.Errorf("a %s can only be set in a file", v.kind)
}

// grown is a list or a map with more of it; other values are replaced.
func grown(old, more any) any {
	switch old := old.(type) {
	case []string:
		return append(old, more.([]string)...) // the same flag
	case map[string]string:
		return merged(old, more)
	case map[string]bool:
		return merged(old, more)
	case map[string][]string:
		return merged(old, more)
	case []kubeletconfig.MemoryReservation:
		return append(old, more.([]kubeletconfig.MemoryReservation)...) // the same flag
	}
	return more
}

func merged[V any](old map[string]V, more any) map[string]V {
	all := maps.Clone(old)
	maps.Copy(all, more.(map[string]V)) // the same flag
	return all
}

func parseDuration(s string) (string, error) {
	d, err := time.ParseDuration(s)
	return d.String(), err
}

// pairs splits a list of pairs.
func pairs(s, separator string) ([][2]string, error) {
	var list [][2]string
	for pair := range strings.SplitSeq(s, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, separator)
		if !ok {
			return nil, fmt.Errorf("%q, want name%svalue", pair, separator)
		}
		list = append(list, [2]string{strings.TrimSpace(key), strings.TrimSpace(value)})
	}
	return list, nil
}

func parseMap(s, separator string) (map[string]string, error) {
	list, err := pairs(s, separator)
	m := map[string]string{}
	for _, p := range list {
		m[p[0]] = p[1]
	}
	return m, err
}

func parseSwitches(s string) (map[string]bool, error) {
	list, err := pairs(s, "=")
	if err != nil {
		return nil, err
	}
	m := map[string]bool{}
	for _, p := range list {
		if m[p[0]], err = strconv.ParseBool(p[1]); err != nil {
			return nil, fmt.Errorf("%s is %q, want true or false", p[0], p[1])
		}
	}
	return m, nil
}

// parseHeaders reads "a:hello,b:again,b:more".
func parseHeaders(s string) (map[string][]string, error) {
	list, err := pairs(s, ":")
	m := map[string][]string{}
	for _, p := range list {
		m[p[0]] = append(m[p[0]], p[1])
	}
	return m, err
}

// parseModules reads "file=2,other*=4".
func parseModules(s string) (any, error) {
	list, err := pairs(s, "=")
	if err != nil {
		return nil, err
	}
	modules := []map[string]any{}
	for _, p := range list {
		level, err := strconv.ParseUint(p[1], 10, 31)
		if err != nil {
			return nil, fmt.Errorf("level of %s is %q, want a number", p[0], p[1])
		}
		modules = append(modules, map[string]any{"filePattern": p[0], "verbosity": level})
	}
	return modules, nil
}

// parseReservedMemory reads "0:memory=1Gi,hugepages-1Gi=1Gi", for several nodes with a
// semicolon.
func parseReservedMemory(s string) ([]kubeletconfig.MemoryReservation, error) {
	var list []kubeletconfig.MemoryReservation
	for one := range strings.SplitSeq(s, ";") {
		node, limits, ok := strings.Cut(one, ":")
		number, err := strconv.ParseInt(node, 10, 32)
		if !ok || err != nil || number < 0 {
			return nil, fmt.Errorf("%q, want the number of a NUMA node, and type=amount after a colon", one)
		}
		amounts, err := parseMap(limits, "=")
		if err != nil {
			return nil, err
		}
		data, err := json.Marshal(map[string]any{"numaNode": number, "limits": amounts})
		if err != nil {
			return nil, err
		}
		var r kubeletconfig.MemoryReservation
		if err := json.Unmarshal(data, &r); err != nil {
			return nil, fmt.Errorf("%q: %w", one, err)
		}
		list = append(list, r)
	}
	return list, nil
}

// fieldType returns the type of a field of the configuration, without its pointer; nil if
// there is none of the name.
func fieldType(path string) reflect.Type {
	t := reflect.TypeFor[kubeletconfig.KubeletConfiguration]()
	for name := range strings.SplitSeq(path, ".") {
		field, ok := fieldOf(t, name)
		if !ok {
			return nil
		}
		t = field.Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	return t
}

// fieldOf finds a field by its name in JSON.
func fieldOf(t reflect.Type, name string) (reflect.StructField, bool) {
	if t.Kind() != reflect.Struct {
		return reflect.StructField{}, false
	}
	for f := range t.Fields() {
		tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name {
			return f, true
		}
		if f.Anonymous && tag == "" {
			if inner, ok := fieldOf(f.Type, name); ok {
				return inner, true
			}
		}
	}
	return reflect.StructField{}, false
}

// defaultValues returns the defaults of all fields by their names, as JSON has them.
func defaultValues() map[string]any {
	var k kubeletconfig.KubeletConfiguration
	config.SetDefaults(&k)
	data, err := json.Marshal(k)
	if err != nil {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil
	}
	flat := map[string]any{}
	flatten(fields, "", flat)
	return flat
}

// flatten writes the fields of an object below their full names, and the object too: a
// field may be a map.
func flatten(fields map[string]any, prefix string, into map[string]any) {
	for name, value := range fields {
		into[prefix+name] = value
		if inner, ok := value.(map[string]any); ok {
			flatten(inner, prefix+name+".", into)
		}
	}
}

// show writes a default as it stands in the help; empty where there is none.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		words := make([]string, 0, len(v))
		for _, w := range v {
			words = append(words, show(w))
		}
		return strings.Join(words, ",")
	case map[string]any:
		words := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			words = append(words, key+"="+show(v[key]))
		}
		return strings.Join(words, ",")
	}
	return fmt.Sprint(v)
}
