package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/cni/cnitest"
)

// scene is an invoker with three stubs and what a point of the specification needs.
type scene struct {
	*testing.T
	p *cnitest.Plugins
	v *Invoker
	n *Network
	a Attachment
}

func (s *scene) add() {
	s.Helper()
	if _, err := s.v.Add(s.Context(), s.n, s.a); err != nil {
		s.Fatal(err)
	}
}

// configs returns what the plugins have read since the last call, by command and
// plugin.
func (s *scene) configs() map[string]map[string]any {
	s.Helper()
	all := map[string]map[string]any{}
	for _, c := range s.p.Calls() {
		var conf map[string]any
		if err := json.Unmarshal([]byte(c.Config), &conf); err != nil {
			s.Fatalf("%s read %q: %v", c, c.Config, err)
		}
		all[c.Command+" "+c.Plugin] = conf
	}
	s.p.Forget()
	return all
}

// addressed is a result with one address, in the version of the network.
func addressed(version, addr string) string {
	if version < "1" {
		return `{"cniVersion":"` + version + `","ips":[{"version":"4","address":"` + addr + `"}]}`
	}
	return `{"cniVersion":"` + version + `","ips":[{"address":"` + addr + `"}]}`
}

// prevAddr is the address in a configuration's prevResult, empty if there is none.
func prevAddr(conf map[string]any) string {
	prev, ok := conf["prevResult"].(map[string]any)
	if !ok {
		return ""
	}
	return prev["ips"].([]any)[0].(map[string]any)["address"].(string)
}

// points are the demands of the specification on a runtime, version by version:
// https://github.com/containernetworking/cni/blob/main/SPEC.md, sections 2 and 3.
var points = []struct {
	name string
	test func(*scene)
}{
	{"ADD runs the plugins in order, each with the result before", func(s *scene) {
		s.add()
		wantPlain(s, s.p, "stub-a ADD", "stub-b ADD", "stub-c ADD")
		got := s.configs()
		for plugin, want := range map[string]string{"stub-a": "", "stub-b": "10.0.0.1/24", "stub-c": "10.0.0.2/24"} {
			if prev := prevAddr(got["ADD "+plugin]); prev != want {
				s.Errorf("prevResult of %s is %q, want %q", plugin, prev, want)
			}
		}
	}},
	{"DEL runs them in reverse order, each with the final result", func(s *scene) {
		s.add()
		s.p.Forget()
		if err := s.v.Del(s.Context(), s.n, s.a); err != nil {
			s.Error(err)
		}
		wantPlain(s, s.p, "stub-c DEL", "stub-b DEL", "stub-a DEL")
		want := "10.0.0.3/24"
		if !s.n.atLeast("0.4.0") {
			want = "" // came with 0.4.0
		}
		for name, conf := range s.configs() {
			if prev := prevAddr(conf); prev != want {
				s.Errorf("prevResult of %s is %q, want %q", name, prev, want)
			}
		}
	}},
	{"DEL stops at an error, and can be repeated", func(s *scene) {
		s.add()
		s.p.Forget()
		s.p.On("stub-b", "DEL", cnitest.Fail(999, "busy"))
		if err := s.v.Del(s.Context(), s.n, s.a); err == nil || !strings.Contains(err.Error(), "plugin stub-b: DEL: busy") {
			s.Errorf("error is %v", err)
		}
		wantPlain(s, s.p, "stub-c DEL", "stub-b DEL")
		s.p.Forget()
		s.p.Off("stub-b", "DEL")
		if err := s.v.Del(s.Context(), s.n, s.a); err != nil {
			s.Error(err)
		}
		wantClean(s, s.v, s.p)
	}},
	{"CHECK runs them in order, each with the final result", func(s *scene) {
		s.add()
		s.p.Forget()
		err := s.v.Check(s.Context(), s.a.Key())
		if !s.n.atLeast("0.4.0") {
			if !errors.Is(err, ErrNotSupported) {
				s.Errorf("error is %v, want ErrNotSupported", err)
			}
			wantPlain(s, s.p)
			return
		}
		if err != nil {
			s.Error(err)
		}
		wantPlain(s, s.p, "stub-a CHECK", "stub-b CHECK", "stub-c CHECK")
		for name, conf := range s.configs() {
			if prev := prevAddr(conf); prev != "10.0.0.3/24" {
				s.Errorf("prevResult of %s is %q", name, prev)
			}
		}
	}},
	{"CHECK stops at an error", func(s *scene) {
		s.add()
		s.p.Forget()
		s.p.On("stub-a", "CHECK", cnitest.Fail(3, "gone"))
		if err := s.v.Check(s.Context(), s.a.Key()); err == nil {
			s.Error("no error")
		}
		if got := s.p.Calls(); len(got) > 1 {
			s.Errorf("calls %v, want at most one", got)
		}
	}},
	{"CHECK is not run where it is disabled, nor before ADD", func(s *scene) {
		s.n = mustParse(s, strings.Replace(string(s.n.Config()), `"disableCheck":false`, `"disableCheck":true`, 1))
		if err := s.v.Check(s.Context(), s.a.Key()); !errors.Is(err, ErrNotAttached) {
			s.Errorf("before ADD: %v, want ErrNotAttached", err)
		}
		s.add()
		s.p.Forget()
		if err := s.v.Check(s.Context(), s.a.Key()); err != nil && s.n.atLeast("0.4.0") {
			s.Error(err)
		}
		wantPlain(s, s.p)
	}},
	{"the parameters of ADD are those of DEL and CHECK", func(s *scene) {
		s.add()
		if s.n.atLeast("0.4.0") {
			if err := s.v.Check(s.Context(), s.a.Key()); err != nil {
				s.Error(err)
			}
		}
		// Another configuration, and a caller that has forgotten everything else.
		other := mustParse(s, `{"cniVersion":"1.0.0","name":"other","plugins":[{"type":"stub-a"}]}`)
		if err := s.v.Del(s.Context(), other, Attachment{ContainerID: s.a.ContainerID, IfName: s.a.IfName}); err != nil {
			s.Error(err)
		}
		for _, c := range s.p.Calls() {
			if c.Args != "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web;K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u" ||
				c.NetNS != "vm:7" || c.Path != s.p.Dir() || !strings.Contains(c.Config, `"name":"pods"`) {
				s.Errorf("%s: args %q, netns %q, path %q, config %s", c, c.Args, c.NetNS, c.Path, c.Config)
			}
		}
		wantClean(s, s.v, s.p)
	}},
	{"capability arguments go to the plugins that ask for them", func(s *scene) {
		s.add()
		if err := s.v.Del(s.Context(), s.n, s.a); err != nil {
			s.Error(err)
		}
		for name, conf := range s.configs() {
			want := any(nil)
			if strings.HasSuffix(name, "stub-c") {
				want = map[string]any{"portMappings": []any{map[string]any{"hostPort": 8080., "containerPort": 80., "protocol": "tcp"}}}
			}
			if diff := cmp.Diff(want, conf["runtimeConfig"]); diff != "" {
				s.Errorf("runtimeConfig of %s (-want +got):\n%s", name, diff)
			}
			if conf["capabilities"] != nil || conf["name"] != "pods" || conf["cniVersion"] != s.n.Version || conf["own"] != 1. {
				s.Errorf("configuration of %s: %v", name, conf)
			}
		}
	}},
	{"STATUS asks every plugin from 1.1.0 on", func(s *scene) {
		if err := s.v.Status(s.Context(), s.n); err != nil {
			s.Error(err)
		}
		if !s.n.atLeast("1.1.0") {
			wantPlain(s, s.p)
			return
		}
		wantPlain(s, s.p, "stub-a STATUS", "stub-b STATUS", "stub-c STATUS")
		s.p.On("stub-b", "STATUS", cnitest.Fail(51, "no route to the controller"))
		err := s.v.Status(s.Context(), s.n)
		if !errors.Is(err, ErrLimited) || !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrTryAgain) {
			s.Errorf("error is %v, want ErrLimited, which is an ErrUnavailable too", err)
		}
	}},
	{"GC tells every plugin from 1.1.0 on what is valid, and goes on after an error", func(s *scene) {
		s.add()
		s.p.Forget()
		s.p.On("stub-a", "GC", cnitest.Fail(999, "store broken"))
		_, err := s.v.GC(s.Context(), s.n, keep(s.a.Key()))
		if !s.n.atLeast("1.1.0") {
			if err != nil {
				s.Error(err)
			}
			wantPlain(s, s.p)
			return
		}
		if err == nil || !strings.Contains(err.Error(), "plugin stub-a: GC: store broken") {
			s.Errorf("error is %v", err)
		}
		wantPlain(s, s.p, "stub-a GC", "stub-b GC", "stub-c GC")
		for name, conf := range s.configs() {
			want := []any{map[string]any{"containerID": "c1", "ifname": "eth0"}}
			if diff := cmp.Diff(any(want), conf["cni.dev/valid-attachments"]); diff != "" {
				s.Errorf("valid attachments of %s (-want +got):\n%s", name, diff)
			}
			if conf["prevResult"] != nil || conf["runtimeConfig"] != nil {
				s.Errorf("configuration of %s is that of an attachment: %v", name, conf)
			}
		}
	}},
	{"GC leaves the plugins alone where it is disabled", func(s *scene) {
		s.n = mustParse(s, strings.Replace(string(s.n.Config()), `"disableGC":false`, `"disableGC":true`, 1))
		if _, err := s.v.GC(s.Context(), s.n, keep()); err != nil {
			s.Error(err)
		}
		wantPlain(s, s.p)
	}},
	{"a second ADD without DEL does not happen", func(s *scene) {
		s.add()
		s.p.Forget()
		if _, err := s.v.Add(s.Context(), s.n, s.a); !errors.Is(err, ErrAttached) {
			s.Errorf("error is %v, want ErrAttached", err)
		}
		wantPlain(s, s.p)
		other := s.a
		other.IfName = "net1"
		if _, err := s.v.Add(s.Context(), s.n, other); err != nil {
			s.Errorf("another interface: %v", err)
		}
	}},
	{"identifiers are checked before anything runs", func(s *scene) {
		for _, bad := range []Attachment{
			{ContainerID: "", IfName: "eth0"},
			{ContainerID: "../c1", IfName: "eth0"},
			{ContainerID: "-c1", IfName: "eth0"},
			{ContainerID: "c1", IfName: ""},
			{ContainerID: "c1", IfName: "eth/0"},
			{ContainerID: "c1", IfName: "sixteen-letters-"},
			{ContainerID: "c1", IfName: "eth0", Args: []Arg{{"K", "v;X=1"}}},
			{ContainerID: "c1", IfName: "eth0", Args: []Arg{{"K=", "v"}}},
		} {
			if _, err := s.v.Add(s.Context(), s.n, bad); err == nil {
				s.Errorf("ADD of %+v: no error", bad)
			}
			if err := s.v.Del(s.Context(), s.n, bad); err == nil {
				s.Errorf("DEL of %+v: no error", bad)
			}
		}
		wantPlain(s, s.p)
	}},
}

// wantPlain compares the calls without the attachment, and keeps them.
func wantPlain(tb testing.TB, p *cnitest.Plugins, want ...string) {
	tb.Helper()
	var got []string
	for _, c := range p.Calls() {
		got = append(got, c.Plugin+" "+c.Command)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		tb.Errorf("calls (-want +got):\n%s", diff)
	}
}

func keep(keys ...Key) func(context.Context) ([]Key, error) {
	return func(context.Context) ([]Key, error) { return keys, nil }
}

func TestConformance(t *testing.T) {
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) {
			for _, point := range points {
				t.Run(point.name, func(t *testing.T) {
					p, v := setup(t, "stub-a", "stub-b", "stub-c")
					var plugins []string
					for i, name := range []string{"stub-a", "stub-b", "stub-c"} {
						p.SetResult(name, addressed(version, fmt.Sprintf("10.0.0.%d/24", i+1)))
						plugins = append(plugins, fmt.Sprintf(`{"type":%q,"own":1,"capabilities":{"portMappings":%t}}`, name, name == "stub-c"))
					}
					n := mustParse(t, `{"cniVersion":"`+version+`","name":"pods","plugins":[`+strings.Join(plugins, ",")+`]}`)
					point.test(&scene{T: t, p: p, v: v, n: n, a: Attachment{
						ContainerID: "c1", IfName: "eth0", NetNS: "vm:7", Args: PodArgs("ns", "web", "u", "c1"),
						Capabilities: Capabilities{PortMappings: []PortMapping{{HostPort: 8080, ContainerPort: 80}}},
					}})
				})
			}
		})
	}
}
