package staticpods

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestObjectsBesideAPod(t *testing.T) {
	m, err := Decode([]byte(`apiVersion: v1
kind: ConfigMap
metadata: {name: conf, resourceVersion: "7"}
data: {app.ini: "a=1"}
binaryData: {logo: AAH/}
immutable: true
---
apiVersion: v1
kind: Secret
metadata: {name: key, namespace: team, labels: {a: b}}
type: example.com/own
data: {old: b2xk}
stringData: {new: fresh}
`), "node-a")
	if err != nil {
		t.Fatal(err)
	}
	want := Manifest{
		ConfigMaps: []*corev1.ConfigMap{{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conf"},
			Data: map[string]string{"app.ini": "a=1"}, BinaryData: map[string][]byte{"logo": {0, 1, 255}},
		}},
		Secrets: []*corev1.Secret{{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "key", Labels: map[string]string{"a": "b"}},
			Type: "example.com/own", Data: map[string][]byte{"old": []byte("old"), "new": []byte("fresh")},
		}},
		Warnings: []Problem{
			{Line: 3, Field: "metadata.resourceVersion", Message: "has no meaning in a manifest and is dropped"},
			{Line: 6, Field: "immutable", Message: "has no effect on a manifest: the file says what the object is"},
		},
	}
	m.objects = nil
	if diff := cmp.Diff(want, m, cmp.AllowUnexported(Manifest{}), cmp.AllowUnexported(need{}, objectName{})); diff != "" {
		t.Errorf("manifest (-want +got):\n%s", diff)
	}
}

func TestObjectsAreValidated(t *testing.T) {
	const head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\n"
	for _, tt := range []struct {
		name, text, want string
	}{
		{name: "no name", text: "apiVersion: v1\nkind: Secret\nmetadata: {}\n", want: "line 3: metadata.name: required"},
		{name: "name", text: "apiVersion: v1\nkind: Secret\nmetadata: {name: A}\n", want: "line 3: metadata.name: a lowercase RFC 1123 subdomain"},
		{name: "namespace", text: "apiVersion: v1\nkind: Secret\nmetadata: {name: a, namespace: b.c}\n", want: "line 3: metadata.namespace: must not contain dots"},
		{name: "key that leaves its directory", text: head + "data:\n  ../x: z\n", want: "line 5: data[../x]: a valid config key must consist of"},
		{name: "two dots", text: head + "data:\n  ..: z\n", want: "line 5: data[..]: must not be '..'"},
		{name: "key in both", text: head + "data: {a: b}\nbinaryData: {a: AA==}\n", want: "line 5: binaryData[a]: is in data, too"},
		{name: "type", text: head + "data: {a: [b]}\n", want: "line 4: data[a]"},
		{name: "base64", text: "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: \"*\"}\n", want: "line 4: data[a]"},
		{name: "too large", text: head + "data:\n  a: " + strings.Repeat("x", 1<<20+1) + "\n", want: "holds 1048577 bytes, at most 1048576 are allowed"},
		{name: "twice", text: head + "---\n" + head, want: "line 5: a second ConfigMap default/conf in one file"},
		{name: "another version", text: "apiVersion: v2\nkind: ConfigMap\nmetadata: {name: a}\n", want: `line 1: apiVersion: is "v2", must be v1`},
		{name: "beside a good pod", text: plain + "---\n" + head + "data: {\"/\": b}\n", want: "data[/]"},
		{name: "unknown field beside a wrong one", text: head + "dat: {}\ndata: {\"/\": b}\n", want: `line 4: dat: unknown field; did you mean "data"?`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.text), "node-a")
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %q, want %q in it", err, tt.want)
			}
		})
	}
}

// conf is a manifest of a ConfigMap with one value.
func conf(name, value string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + name + "}\ndata: {v: \"" + value + "\"}\n"
}

// reader is a manifest of a pod that refers to a ConfigMap.
func reader(name, gen, configMap string) string {
	return web(name, gen) + "    envFrom: [{configMapRef: {name: " + configMap + "}}]\n"
}

// values returns the ConfigMaps of the set in force, like "default/conf=1".
func (b *bench) values() []string {
	var got []string
	sets := b.delivered()
	if len(sets) == 0 {
		return nil
	}
	for _, c := range sets[len(sets)-1].ConfigMaps {
		got = append(got, c.Namespace+"/"+c.Name+"="+c.Data["v"])
	}
	return got
}

func (b *bench) wantValues(want ...string) {
	b.t.Helper()
	if diff := cmp.Diff(want, b.values()); diff != "" {
		b.t.Errorf("ConfigMaps (-want +got):\n%s", diff)
	}
}

// TestPodWaitsForWhatItRefersTo has the objects of a pod in a file of their own, which
// comes later, changes and goes.
func TestPodWaitsForWhatItRefersTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			b.write("a.yaml", reader("a", "1", "conf"))
			b.write("b.yaml", web("b", "1"))
		})
		b.after(settled)
		b.wantPods("default/b-node-a GEN=1")
		b.wantStates("a.yaml invalid", "b.yaml ok")
		if s := b.source.Statuses()[0]; s.Line != 9 || !strings.Contains(s.Reason, "none holds ConfigMap default/conf") {
			t.Errorf("line %d, reason %q; want line 9 and the object", s.Line, s.Reason)
		}

		b.write("c.yaml", conf("conf", "1"))
		b.after(settled)
		b.wantPods("default/a-node-a GEN=1", "default/b-node-a GEN=1")
		b.wantValues("default/conf=1")
		b.wantStates("a.yaml ok", "b.yaml ok", "c.yaml ok")
		before := b.delivered()

		b.write("c.yaml", conf("conf", "2"))
		b.after(settled)
		b.wantValues("default/conf=2")
		after := b.delivered()
		if len(after) != len(before)+1 || after[len(after)-1].Pods[0] != before[len(before)-1].Pods[0] {
			t.Error("a new object made another pod")
		}

		b.remove("c.yaml")
		b.after(settled)
		b.wantPods("default/a-node-a GEN=1", "default/b-node-a GEN=1")
		b.wantValues()
		b.wantStates("a.yaml invalid kept", "b.yaml ok")
	})
}

// TestEditThatNeedsWhatIsNotThere keeps the pod as it was until the object is there.
func TestEditThatNeedsWhatIsNotThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) { b.write("a.yaml", web("a", "1")) })
		b.after(settled)
		b.write("a.yaml", reader("a", "2", "conf"))
		b.after(settled)
		b.wantPods("default/a-node-a GEN=1")
		b.wantStates("a.yaml invalid kept")
		b.write("a.yaml", reader("a", "2", "conf")+"---\n"+conf("conf", "1"))
		b.after(settled)
		b.wantPods("default/a-node-a GEN=2")
		b.wantValues("default/conf=1")
		b.wantStates("a.yaml ok")
		if diff := cmp.Diff([]string{"ConfigMap default/conf"}, b.source.Statuses()[0].Objects); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

func TestBrokenObjectStaysAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			b.write("a.yaml", reader("a", "1", "conf"))
			b.write("conf.yaml", conf("conf", "1"))
		})
		b.after(settled)
		for _, text := range []string{"", conf("conf", "2") + "binaryData: {v: AA==}\n", strings.TrimSuffix(conf("conf", "2"), "\n")} {
			b.write("conf.yaml", text)
			b.after(time.Minute)
			b.wantStates("a.yaml ok", "conf.yaml invalid kept")
			b.wantValues("default/conf=1")
		}
		if n := len(b.delivered()); n != 1 {
			t.Errorf("%d sets were delivered, want 1", n)
		}
	})
}

// TestObjectInTwoFiles has the first of them win, and the other one say so.
func TestObjectInTwoFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, Config{}, func(b *bench) {
			b.write("1.yaml", conf("conf", "1"))
			b.write("2.yaml", conf("conf", "2"))
			b.write("3.yaml", web("a", "1")+"---\n"+conf("conf", "3")+"---\n"+conf("own", "3"))
			b.write("1.yaml.bak", conf("conf", "old"))
		})
		b.after(settled)
		b.wantValues("default/conf=1", "default/own=3")
		b.wantStates("1.yaml ok", "1.yaml.bak ignored", "2.yaml duplicate", "3.yaml ok")
		want := map[string]string{
			"1.yaml.bak": "is not named *.yaml, *.yml or *.json; it holds ConfigMap default/conf",
			"2.yaml":     "ConfigMap default/conf: is taken by " + b.path("1.yaml") + ", which sorts first",
		}
		for _, s := range b.source.Statuses() {
			if diff := cmp.Diff(want[filepath.Base(s.Path)], s.Reason); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.Path, diff)
			}
			if filepath.Base(s.Path) == "3.yaml" && (len(s.Warnings) != 1 || cmp.Diff([]string{"ConfigMap default/own"}, s.Objects) != "") {
				t.Errorf("3.yaml warns of %v and contributes %v", s.Warnings, s.Objects)
			}
		}
		b.remove("1.yaml")
		b.after(settled)
		b.wantValues("default/conf=2", "default/own=3")
	})
}
