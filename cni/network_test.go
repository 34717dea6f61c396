package cni

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/cni/cnitest"
)

// TestWhatInstallersWrite has the configurations that the installers of three
// widespread network projects leave on a node.
func TestWhatInstallersWrite(t *testing.T) {
	tests := []struct {
		name, file, want string
		programs         []string
		capabilities     []string
	}{
		{
			name: "Calico", file: "10-calico.conflist",
			want:         "k8s-pod-network (CNI 0.3.1: calico+calico-ipam, portmap, bandwidth)",
			programs:     []string{"plugin calico", "ipam calico-ipam", "plugin portmap", "plugin bandwidth"},
			capabilities: []string{"bandwidth", "portMappings"},
		},
		{
			name: "Cilium", file: "05-cilium.conflist",
			want:     "cilium (CNI 0.3.1: cilium-cni)",
			programs: []string{"plugin cilium-cni"},
		},
		{
			name: "Flannel", file: "10-flannel.conflist",
			want:         "cbr0 (CNI 0.3.1: flannel+bridge, portmap)",
			programs:     []string{"plugin flannel", "delegate bridge", "plugin portmap"},
			capabilities: []string{"portMappings"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, err := loadFile(filepath.Join("testdata", "installers", test.file))
			if err != nil {
				t.Fatal(err)
			}
			if got := n.String(); got != test.want {
				t.Errorf("explained as %q, want %q", got, test.want)
			}
			if diff := cmp.Diff(test.capabilities, n.Capabilities()); diff != "" {
				t.Errorf("capabilities (-want +got):\n%s", diff)
			}
			p, v := setup(t)
			v.cfg.BinDirs = append(v.cfg.BinDirs, "/nowhere/bin")
			var programs []string
			for _, one := range v.Programs(n) {
				programs = append(programs, one.Role+" "+one.Name)
				want := `program "` + one.Name + `" not found in ` + p.Dir() + ", /nowhere/bin"
				if !errors.Is(one.Err, ErrPluginMissing) || !strings.Contains(one.Err.Error(), want) {
					t.Errorf("missing program: %v, want %q", one.Err, want)
				}
				if err := v.Validate(t.Context(), n); err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("validation: %v, want %q", err, want)
				}
			}
			if diff := cmp.Diff(test.programs, programs); diff != "" {
				t.Errorf("programs (-want +got):\n%s", diff)
			}
			for _, one := range v.Programs(n) {
				p.Install(one.Name)
			}
			if err := errors.Join(v.Validate(t.Context(), n), v.Status(t.Context(), n)); err != nil {
				t.Errorf("with everything installed: %v", err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, conf string
		want, err  string
	}{
		{name: "single plugin", conf: `{"cniVersion":"0.4.0","name":"lone","type":"ptp","ipam":{"type":"static"}}`, want: "lone (CNI 0.4.0: ptp+static)"},
		{name: "newest of several versions", conf: `{"cniVersion":"0.4.0","cniVersions":["1.0.0","1.1.0","7.0.0"],"name":"n","plugins":[{"type":"a"}]}`, want: "n (CNI 1.1.0: a)"},
		{name: "empty", conf: " \n", err: "the file is empty"},
		{name: "half written", conf: "{\n\"name\":\"n\",\n\"plug", err: "line 3: unexpected end of JSON"},
		{name: "no JSON", conf: "{\n  name: pods\n}", err: "line 2: invalid character"},
		{name: "no name", conf: `{"cniVersion":"1.0.0","plugins":[{"type":"a"}]}`, err: "no name"},
		{name: "name that leaves the directory", conf: `{"cniVersion":"1.0.0","name":"../etc","plugins":[{"type":"a"}]}`, err: `name "../etc"`},
		{name: "no version", conf: `{"name":"n","plugins":[{"type":"a"}]}`, err: "0.1.0, which has no chains"},
		{name: "version to come", conf: `{"cniVersion":"2.0.0","name":"n","plugins":[{"type":"a"}]}`, err: `cniVersion is "2.0.0", want one of`},
		{name: "no plugins", conf: `{"cniVersion":"1.0.0","name":"n","plugins":[]}`, err: "no plugins"},
		{name: "plugins elsewhere only", conf: `{"cniVersion":"1.0.0","name":"n"}`, err: `network "n" has no plugins`},
		{name: "plugin without a type", conf: `{"cniVersion":"1.0.0","name":"n","plugins":[{}]}`, err: "missing 'type'"},
		{name: "plugin with a path", conf: `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a"},{"type":"../../bin/sh"}]}`, err: `plugins[1]: type is "../../bin/sh"`},
		{name: "address manager with a path", conf: `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"a","ipam":{"type":"/bin/sh"}}]}`, err: `plugins[0]: ipam.type is "/bin/sh"`},
		{name: "null", conf: `null`, err: "no name"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n, err := Parse([]byte(test.conf))
			if test.err == "" {
				if err != nil || n.String() != test.want {
					t.Errorf("got %v, %v; want %q", n, err, test.want)
				}
			} else if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("error is %v, want %q in it", err, test.err)
			}
		})
	}
}

func TestRequestPassesUnknownFieldsThrough(t *testing.T) {
	n := mustParse(t, `{"cniVersion":"1.1.0","name":"n","plugins":[{
		"type":"a", "big": 9007199254740993, "nested": {"x": [1, {"y": null}]}, "args": {"cni": {"labels": []}},
		"cni.dev/secret": 1, "prevResult": {}, "capabilities": {"portMappings": true, "mac": false, "bandwidth": true}}]}`)
	args, err := (&Capabilities{PortMappings: []PortMapping{{HostPort: 80, ContainerPort: 8080}}, MAC: []byte{2, 0, 0, 0, 0, 1}}).args()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"mac"}, unclaimed(n, args)); diff != "" {
		t.Errorf("unclaimed (-want +got):\n%s", diff)
	}
	got, err := n.request(0, extras{args: args, prev: json.RawMessage(`{"ips":[]}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"args":{"cni":{"labels":[]}},"big":9007199254740993,"cniVersion":"1.1.0","name":"n","nested":{"x":[1,{"y":null}]},` +
		`"prevResult":{"ips":[]},"runtimeConfig":{"portMappings":[{"hostPort":80,"containerPort":8080,"protocol":"tcp"}]},"type":"a"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestLoopbackIsAValidNetwork(t *testing.T) {
	n := mustParse(t, string(Loopback().Config()))
	if n.String() != Loopback().String() {
		t.Errorf("parsed again it is %s, want %s", n, Loopback())
	}
	p, v := setup(t, "loopback")
	a := Attachment{ContainerID: "c1", IfName: "lo"}
	if _, err := v.Add(t.Context(), Loopback(), a); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(v.Check(t.Context(), a.Key()), v.Del(t.Context(), nil, a)); err != nil {
		t.Error(err)
	}
	wantClean(t, v, p)
}

func TestVersionsOfPlugins(t *testing.T) {
	p, v := setup(t, "old", "broken")
	p.On("old", "VERSION", cnitest.Print(`{"cniVersion":"1.1.0","supportedVersions":["0.3.1","0.4.0"]}`))
	p.On("broken", "VERSION", cnitest.Print(`what?`))
	n := mustParse(t, `{"cniVersion":"1.0.0","name":"n","plugins":[{"type":"old"},{"type":"broken"}]}`)
	got, err := v.Versions(t.Context(), n)
	if diff := cmp.Diff([][]string{{"0.3.1", "0.4.0"}, nil}, got); diff != "" || err == nil {
		t.Errorf("error %v, versions (-want +got):\n%s", err, diff)
	}
	err = v.Validate(t.Context(), n)
	for _, want := range []string{"plugin old: VERSION: the configuration has 1.0.0, the plugin speaks 0.3.1, 0.4.0", "plugin broken: VERSION"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("validation: %v, want %q in it", err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(three("1.0.0")))
	f.Add([]byte(`{"cniVersion":"1.0.0","name":"n","type":"a","capabilities":{"mac":true},"delegate":7}`))
	f.Add([]byte(`{"cniVersions":["0.3.1"],"name":"n","plugins":[{"type":"flannel","delegate":{"type":"x"}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, err := Parse(data)
		if err != nil {
			return
		}
		again, err := Parse(n.Config())
		if err != nil || again.String() != n.String() {
			t.Fatalf("its own configuration is %v, %v; want %s", again, err, n)
		}
		for i := range n.Plugins {
			if _, err := n.request(i, extras{}); err != nil {
				t.Fatalf("request of plugin %d: %v", i, err)
			}
		}
	})
}
