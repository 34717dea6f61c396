package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// TestHonouredFieldsAreThoseThatAreRead: a field that the program reads is not reported to
// be without effect, and one that nothing reads is not said to have one.
func TestHonouredFieldsAreThoseThatAreRead(t *testing.T) {
	source := sources(t, ".", "node", "identity", "machine", "../../allocatable/config")
	honours := honoured()
	// The statistics name these cgroups; no process is moved to them, which they are for.
	partly := []string{"kubeletCgroups", "systemCgroups"}
	for i, kind := 0, reflect.TypeFor[kubeletconfig.KubeletConfiguration](); i < kind.NumField(); i++ {
		f := kind.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || slices.Contains(partly, name) {
			continue // the first: what it is, not what it says
		}
		listed := slices.ContainsFunc(honours, func(h string) bool { return h == name || strings.HasPrefix(h, name+".") })
		read := regexp.MustCompile(`\b(k|c|cfg|[kK]ubelet)\.` + f.Name + `\b`).MatchString(source)
		if listed != read {
			t.Errorf("%s: honoured is %t, and that the program reads it %t", name, listed, read)
		}
	}
}

// sources returns the code of directories, without that which only fills the configuration
// in or looks whether it can be.
func sources(t *testing.T, dirs ...string) string {
	t.Helper()
	var b strings.Builder
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(paths) == 0 {
			t.Fatal("no code in", dir, err)
		}
		for _, path := range paths {
			base := filepath.Base(path)
			if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "validate") || strings.HasPrefix(base, "default") || base == "load.go" {
				continue
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b.Write(data)
		}
	}
	return b.String()
}
