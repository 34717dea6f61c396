package support_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// instance is a field of an object that is set.
type instance struct {
	// key is the field as "Type.Field" in Go spelling, path where it is in the object.
	key, path string
	// value can be set.
	value reflect.Value
}

// set returns every field below v that is set, outer ones first.
func set(v reflect.Value, path string) []instance {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return set(v.Elem(), path)
	case reflect.Slice:
		var out []instance
		for i := range v.Len() {
			out = append(out, set(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
		return out
	case reflect.Struct:
		if isLeaf(v.Type()) {
			return nil
		}
		var out []instance
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if v.Field(i).IsZero() || f.Type == reflect.TypeFor[metav1.TypeMeta]() || f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
				continue
			}
			at := join(path, jsonName(f))
			out = append(out, instance{key: v.Type().Name() + "." + f.Name, path: at, value: v.Field(i)})
			out = append(out, set(v.Field(i), at)...)
		}
		return out
	}
	return nil
}

// keys returns the fields of a type and of all below it, without those below the ones
// that stop names.
func keys(t reflect.Type, stop func(key string) bool) []string {
	var out []string
	seen := map[string]bool{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(t.Elem())
			return
		case reflect.Struct:
		default:
			return
		}
		if isLeaf(t) {
			return
		}
		for f := range t.Fields() {
			key := t.Name() + "." + f.Name
			if seen[key] || f.Type == reflect.TypeFor[metav1.TypeMeta]() || f.Type == reflect.TypeFor[metav1.ObjectMeta]() {
				continue
			}
			seen[key] = true
			out = append(out, key)
			if !stop(key) {
				walk(f.Type)
			}
		}
	}
	walk(t)
	return out
}

// isLeaf reports whether a struct is one value to the API.
func isLeaf(t reflect.Type) bool {
	return t == reflect.TypeFor[resource.Quantity]() || t == reflect.TypeFor[intstr.IntOrString]() || t == reflect.TypeFor[metav1.Time]() ||
		reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
}

// jsonName returns the name of a field in JSON, empty for one that is embedded.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func join(path, name string) string {
	switch {
	case name == "":
		return path
	case path == "":
		return name
	}
	return path + "." + name
}

// fill gives v some value that is not zero, down to its fields.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[resource.Quantity]():
			v.Set(reflect.ValueOf(resource.MustParse("1")))
		case reflect.TypeFor[intstr.IntOrString]():
			v.Set(reflect.ValueOf(intstr.FromInt32(1)))
		default:
			for i := range v.NumField() {
				if f := v.Field(i); f.CanSet() {
					fill(f)
				}
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	}
}
