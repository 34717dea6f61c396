package probes_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/nodekit-go/nodekit/probes"
)

// grpcProbe stands for the prober that a gRPC client would make.
type grpcProbe struct{ probes.GRPCHealth }

func (grpcProbe) Probe(context.Context) (probes.Result, error) { return probes.Result{}, nil }

func target() probes.Target {
	return probes.Target{
		Host:        "10.244.1.7",
		ContainerID: "c1",
		Ports: []corev1.ContainerPort{
			{Name: "web", ContainerPort: 8080},
			{ContainerPort: 9999},
			{Name: "metrics", ContainerPort: 9090},
		},
		Env: []corev1.EnvVar{{Name: "FILE", Value: "/tmp/ok"}},
		Clients: probes.Clients{
			Exec: func(context.Context, string, []string, time.Duration) (int, []byte, error) { return 0, nil, nil },
			GRPC: func(h probes.GRPCHealth) probes.Prober { return grpcProbe{h} },
		},
	}
}

func header(pairs ...string) http.Header {
	h := http.Header{"User-Agent": {"kube-probe/1.37"}}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = strings.Split(pairs[i+1], "|")
	}
	return h
}

func parse(t *testing.T, text string) *corev1.Probe {
	t.Helper()
	var p corev1.Probe
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestFromSpecHandlers(t *testing.T) {
	tests := []struct {
		name, spec string
		want       probes.Prober
	}{
		{
			"http", `httpGet: {path: /healthz, port: 8080}`,
			probes.HTTP{URL: "http://10.244.1.7:8080/healthz", Header: header()},
		},
		{
			"http with everything",
			`httpGet: {scheme: HTTPS, host: app.example, path: "/a b?x=1&y=%20", port: web, httpHeaders: [{name: x-one, value: a}, {name: X-One, value: b}, {name: Host, value: h}, {name: user-agent, value: me}]}`,
			probes.HTTP{URL: "https://app.example:8080/a%20b?x=1&y=%20", Header: header("X-One", "a|b", "Host", "h", "User-Agent", "me")},
		},
		{"http without a path", `httpGet: {port: 80}`, probes.HTTP{URL: "http://10.244.1.7:80", Header: header()}},
		{"http without a slash", `httpGet: {port: 80, path: healthz}`, probes.HTTP{URL: "http://10.244.1.7:80/healthz", Header: header()}},
		{"http with a broken path", `httpGet: {port: 80, path: "/100%"}`, probes.HTTP{URL: "http://10.244.1.7:80/100%25", Header: header()}},
		{"http with a path like a URL", `httpGet: {port: 80, path: "http://evil.example/x#y"}`, probes.HTTP{URL: "http://10.244.1.7:80/x", Header: header()}},
		{"http with IPv6", `httpGet: {port: 80, host: "fd00::7", path: /}`, probes.HTTP{URL: "http://[fd00::7]:80/", Header: header()}},
		{"HTTP/2", `httpGet: {port: 80, path: /, protocol: HTTP2}`, probes.HTTP{URL: "http://10.244.1.7:80/", Header: header(), HTTP2: true}},
		{"HTTP/1", `httpGet: {port: 80, path: /, protocol: HTTP1}`, probes.HTTP{URL: "http://10.244.1.7:80/", Header: header()}},
		{"tcp", `tcpSocket: {port: metrics}`, probes.TCP{Addr: "10.244.1.7:9090"}},
		{"tcp with a host", `tcpSocket: {port: 1, host: db}`, probes.TCP{Addr: "db:1"}},
		{"tcp with a number in a string", `tcpSocket: {port: "6379"}`, probes.TCP{Addr: "10.244.1.7:6379"}},
		{"grpc", `grpc: {port: 50051}`, grpcProbe{probes.GRPCHealth{Addr: "10.244.1.7:50051", UserAgent: probes.UserAgent}}},
		{
			"grpc with everything", `grpc: {port: 50051, service: db, mode: TLS}`,
			grpcProbe{probes.GRPCHealth{Addr: "10.244.1.7:50051", Service: "db", TLS: true, UserAgent: probes.UserAgent}},
		},
		{
			"grpc in clear text", `grpc: {port: 50051, mode: Plaintext}`,
			grpcProbe{probes.GRPCHealth{Addr: "10.244.1.7:50051", UserAgent: probes.UserAgent}},
		},
		{"exec", `exec: {command: [test, -e, $(FILE), $(OTHER)]}`, probes.Exec{ContainerID: "c1", Command: []string{"test", "-e", "/tmp/ok", "$(OTHER)"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := probes.FromSpec(probes.Readiness, parse(t, tt.spec), target())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p.Prober, cmpopts.IgnoreFields(probes.Exec{}, "Run")); diff != "" {
				t.Errorf("prober (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFromSpecSchedule(t *testing.T) {
	spec := parse(t, `{tcpSocket: {port: 1}, initialDelaySeconds: 1, timeoutSeconds: 2, periodSeconds: 3, failureThreshold: 4, terminationGracePeriodSeconds: 5}`)
	p, err := probes.FromSpec(probes.Liveness, spec, target())
	if err != nil {
		t.Fatal(err)
	}
	grace := 5 * time.Second
	want := probes.Probe{
		Prober:   probes.TCP{Addr: "10.244.1.7:1"},
		Schedule: probes.Schedule{InitialDelay: time.Second, Timeout: 2 * time.Second, Period: 3 * time.Second, FailureThreshold: 4},
		Grace:    &grace,
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("probe (-want +got):\n%s", diff)
	}
}

func TestFromSpecErrors(t *testing.T) {
	noClients := target()
	noClients.Clients = probes.Clients{}
	noHost := target()
	noHost.Host = ""
	tests := []struct {
		name, spec string
		kind       probes.Kind
		target     probes.Target
		want       []string
	}{
		{name: "no action", spec: `{}`, want: []string{"startupProbe: no action: set one of exec, grpc, httpGet, tcpSocket"}},
		{name: "two actions", spec: `{tcpSocket: {port: 1}, exec: {command: [x]}}`, want: []string{"startupProbe: 2 actions"}},
		{
			name: "unknown port name", kind: probes.Readiness, spec: `httpGet: {port: wbe}`,
			want: []string{`readinessProbe: httpGet.port: the container has no port named "wbe" (it has web, metrics)`},
		},
		{name: "no port", spec: `tcpSocket: {port: 0}`, want: []string{"tcpSocket.port: 0 is no port"}},
		{name: "port out of range", spec: `tcpSocket: {port: 65536}`, want: []string{"65536 is no port"}},
		{name: "negative port", spec: `grpc: {port: -1}`, want: []string{"grpc.port: -1 is no port"}},
		{name: "empty port name", spec: `tcpSocket: {port: ""}`, want: []string{`no port named ""`}},
		{name: "scheme", spec: `httpGet: {port: 1, scheme: FTP}`, want: []string{`httpGet.scheme is "FTP"`}},
		{name: "protocol", spec: `httpGet: {port: 1, protocol: HTTP3}`, want: []string{`httpGet.protocol is "HTTP3"`}},
		{name: "header name", spec: `httpGet: {port: 1, httpHeaders: [{name: ok}, {name: "a b"}]}`, want: []string{`httpGet.httpHeaders[1]: "a b" is no name`}},
		{name: "header value", spec: `httpGet: {port: 1, httpHeaders: [{name: a, value: "b\r\nc"}]}`, want: []string{"httpGet.httpHeaders[0]: header a has a value that cannot be sent"}},
		{name: "host with a port", spec: `httpGet: {port: 1, host: "[::1]:80"}`, want: []string{"httpGet.host is"}},
		{name: "grpc mode", spec: `grpc: {port: 1, mode: mTLS}`, want: []string{`grpc.mode is "mTLS"`}},
		{name: "empty command", spec: `exec: {}`, want: []string{"exec.command is empty"}},
		{name: "no exec", spec: `exec: {command: [x]}`, target: noClients, want: []string{"set Clients.Exec"}},
		{name: "no grpc", spec: `grpc: {port: 1}`, target: noClients, want: []string{"set Clients.GRPC"}},
		{name: "no address", spec: `tcpSocket: {port: 1}`, target: noHost, want: []string{"tcpSocket: the pod has no address yet"}},
		{
			name: "several faults", kind: probes.Liveness,
			spec: `{httpGet: {port: nope}, periodSeconds: -1, successThreshold: 2, terminationGracePeriodSeconds: -3}`,
			want: []string{
				"livenessProbe: periodSeconds is -1", "livenessProbe: successThreshold is 2",
				"livenessProbe: terminationGracePeriodSeconds is -3", "livenessProbe: httpGet.port",
			},
		},
		{
			name: "grace of a readiness probe", kind: probes.Readiness, spec: `{tcpSocket: {port: 1}, terminationGracePeriodSeconds: 3}`,
			want: []string{"readinessProbe: terminationGracePeriodSeconds is set"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.target.Ports == nil {
				tt.target = target()
			}
			p, err := probes.FromSpec(tt.kind, parse(t, tt.spec), tt.target)
			if err == nil {
				t.Fatalf("got %+v, want an error", p)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error is %q, want it to contain %q", err, want)
				}
			}
			if want := tt.name == "no address"; errors.Is(err, probes.ErrNoAddress) != want {
				t.Errorf("errors.Is(ErrNoAddress) = %t", !want)
			}
		})
	}
	if _, err := probes.FromSpec(probes.Startup, nil, target()); err == nil {
		t.Error("a nil probe was taken")
	}
}

// Whatever the manifest says, there is either a probe that can run or an error.
func FuzzFromSpec(f *testing.F) {
	for _, s := range []string{
		`{"httpGet":{"path":"/x?y=%20","port":8080,"scheme":"HTTPS","httpHeaders":[{"name":"a","value":"b"}]}}`,
		`{"httpGet":{"path":"//evil@host:1/x","port":"web","host":"h"}}`,
		`{"httpGet":{"path":":/%zz","port":"1"}}`,
		`{"httpGet":{"path":"mailto:x","port":1,"host":"fd00::1"}}`,
		`{"tcpSocket":{"port":65535},"periodSeconds":1,"terminationGracePeriodSeconds":9223372036854775807}`,
		`{"grpc":{"port":1,"service":"s","mode":"TLS"},"successThreshold":2}`,
		`{"exec":{"command":["a","$(FILE)"]},"timeoutSeconds":-1}`,
		`{}`,
	} {
		f.Add(uint8(0), s)
		f.Add(uint8(2), s)
	}
	f.Fuzz(func(t *testing.T, kind uint8, text string) {
		var spec corev1.Probe
		if json.Unmarshal([]byte(text), &spec) != nil {
			return
		}
		p, err := probes.FromSpec(probes.Kind(kind%3), &spec, target())
		if err != nil {
			if p.Prober != nil {
				t.Errorf("both a probe and an error: %v", err)
			}
			return
		}
		switch prober := p.Prober.(type) {
		case probes.HTTP:
			u, err := url.Parse(prober.URL)
			if err != nil {
				t.Fatalf("URL %q: %v", prober.URL, err)
			}
			want := spec.HTTPGet.Host
			if want == "" {
				want = target().Host
			}
			if u.Hostname() != want || u.User != nil {
				t.Errorf("URL %q leads to %q, want %q", prober.URL, u.Hostname(), want)
			}
		case probes.TCP, probes.Exec, grpcProbe:
		default:
			t.Errorf("prober is %T", prober)
		}
		if p.Grace != nil && *p.Grace < 0 || p.Schedule.Period < 0 || p.Schedule.Timeout < 0 {
			t.Errorf("probe is %+v", p)
		}
		if !utf8.ValidString(text) {
			return
		}
		e, err := probes.New(probes.Config{})
		if err != nil {
			t.Fatal(err)
		}
		c := probes.Container{Ref: probes.Ref{ID: "c"}}
		switch probes.Kind(kind % 3) {
		case probes.Startup:
			c.Startup = &p
		case probes.Liveness:
			c.Liveness = &p
		case probes.Readiness:
			c.Readiness = &p
		}
		if err := e.Add(c); err != nil {
			t.Errorf("the Engine does not take %+v: %v", p, err)
		}
	})
}

func TestPortsByNumberNeedNoName(t *testing.T) {
	spec := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(12345)}}}
	p, err := probes.FromSpec(probes.Liveness, spec, probes.Target{Host: "192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(probes.Prober(probes.TCP{Addr: "192.0.2.1:12345"}), p.Prober); diff != "" {
		t.Errorf("prober (-want +got):\n%s", diff)
	}
}
