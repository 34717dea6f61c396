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
			if v.Field(i).IsZero() || isMeta(f.Type) {
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
	done := map[string]bool{}
	var add func(reflect.Type)
	add = func(t reflect.Type) {
		for f := range t.Fields() {
			key := t.Name() + "." + f.Name
			if done[key] || isMeta(f.Type) {
				continue
			}
			done[key] = true
			out = append(out, key)
			if below := structOf(f.Type); below != nil && !stop(key) {
				add(below)
			}
		}
	}
	add(t)
	return out
}

// eachField calls visit with every field of a type and of all below it, once, with the
// names of the type that has it and of the struct that it is or holds, if any.
func eachField(t reflect.Type, visit func(owner string, f reflect.StructField, of string)) {
	done := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(t reflect.Type) {
		if done[t] {
			return
		}
		done[t] = true
		for f := range t.Fields() {
			below := structOf(f.Type)
			switch {
			case isMeta(f.Type):
			case below == nil:
				visit(t.Name(), f, "")
			default:
				visit(t.Name(), f, below.Name())
				walk(below)
			}
		}
	}
	walk(t)
}

// structOf returns the struct that a type is or holds, nil if it is a value to the API.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || isLeaf(t) {
		return nil
	}
	return t
}

// isMeta reports whether a type is what every object has.
func isMeta(t reflect.Type) bool {
	return t == reflect.TypeFor[metav1.TypeMeta]() || t == reflect.TypeFor[metav1.ObjectMeta]()
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
			for _, f := range v.Fields() {
				if f.CanSet() {
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
