package config

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
)

var update = flag.Bool("update", false, "rewrite testdata/defaults.txt")

// TestEveryDefault compares each field of a configuration in which nothing is set
// with what the kubelet of Kubernetes 1.37 takes it for on Linux.
func TestEveryDefault(t *testing.T) {
	const golden = "testdata/defaults.txt"
	cfg := &kubeletv1beta1.KubeletConfiguration{}
	SetDefaults(cfg)
	v := reflect.ValueOf(cfg).Elem()
	var b strings.Builder
	for i := range v.NumField() {
		name := jsonName(v.Type().Field(i))
		if name == "" {
			continue
		}
		value, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %s\n", name, value)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}
