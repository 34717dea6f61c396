package source

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

const twoDocuments = `# a comment
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  clusterIP: 10.96.0.1
  ports:
  - {name: http, port: 80}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.244.0.1]}]
`

func TestDecode(t *testing.T) {
	tests := []struct {
		name, in     string
		want         []string
		wantProblems []string
	}{
		{name: "empty"},
		{name: "comments and separators only", in: "# nothing\n---\n---\n"},
		{
			name: "documents with defaults", in: twoDocuments,
			want: []string{"Service default/web 10.96.0.1 [IPv4] http 80 TCP 80", "default/web =8080/TCP; 10.244.0.1"},
		},
		{
			name: "JSON", in: `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"x"},
				"spec":{"clusterIPs":["fd00::1","10.96.0.1"],"ports":[{"port":53,"protocol":"UDP","targetPort":"dns"}]}}`,
			want: []string{"Service x/a fd00::1 [IPv6 IPv4]  53 UDP dns"},
		},
		{
			name: "lists", in: `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Service, metadata: {name: a}, spec: {clusterIP: None}}
- {apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: a-1, labels: {kubernetes.io/service-name: a}}, addressType: IPv4}
`,
			want: []string{"Service default/a None []", "default/a"},
		},
		{
			name: "other kinds are named and left out", in: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n---\n" + twoDocuments,
			want:         []string{"Service default/web 10.96.0.1 [IPv4] http 80 TCP 80", "default/web =8080/TCP; 10.244.0.1"},
			wantProblems: []string{":2: kind: apps/v1 Deployment is ignored: only v1 Service and discovery.k8s.io/v1 EndpointSlice are read"},
		},
		{
			name:         "a Service without cluster IP",
			in:           "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\nspec:\n  ports: [{port: 80}]\n",
			want:         []string{"Service default/a  []  80 TCP 80"},
			wantProblems: []string{":5: spec.clusterIP: Service default/a is not served: it has none and nothing here allocates one"},
		},
		{
			name:         "a slice of no Service",
			in:           "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: a}\naddressType: IPv4\n",
			want:         []string{"default/"},
			wantProblems: []string{":3: metadata.labels: EndpointSlice default/a has no effect without the label kubernetes.io/service-name"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Decode([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			var got, problems []string
			for _, svc := range m.Services {
				got = append(got, showService(svc))
			}
			for _, es := range m.EndpointSlices {
				got = append(got, show(es))
			}
			for _, p := range m.Problems {
				problems = append(problems, p.String())
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantProblems, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func showService(svc *corev1.Service) string {
	s := fmt.Sprintf("Service %s/%s %s %v", svc.Namespace, svc.Name, svc.Spec.ClusterIP, svc.Spec.IPFamilies)
	for _, p := range svc.Spec.Ports {
		s += fmt.Sprintf(" %s %d %s %s", p.Name, p.Port, p.Protocol, p.TargetPort.String())
	}
	return s
}

func TestDecodeErrors(t *testing.T) {
	list := "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: a}\n  spec:\n    clusterIp: 10.0.0.1\n"
	tests := []struct {
		name, in  string
		wantLine  int
		wantField string
		wantText  string
	}{
		{name: "syntax", in: "apiVersion: v1\nkind: [Service\n", wantLine: 2},
		{name: "syntax in the second document", in: twoDocuments + "---\n\ta: b\n", wantLine: 17},
		{name: "unknown field", in: strings.Replace(twoDocuments, "clusterIP:", "clusterIp:", 1), wantLine: 6, wantField: "spec.clusterIp", wantText: "unknown field"},
		{name: "unknown field in a list", in: list, wantLine: 8, wantField: "items[0].spec.clusterIp", wantText: "unknown field"},
		{name: "field set twice", in: strings.Replace(twoDocuments, "  ports:", "  clusterIP: 10.96.0.2\n  ports:", 1), wantLine: 7, wantField: "spec.clusterIP", wantText: "twice"},
		{name: "wrong type", in: strings.Replace(twoDocuments, "port: 80}", "port: eighty}", 1), wantLine: 8, wantField: "spec.ports[0].port"},
		{name: "no name", in: "apiVersion: v1\nkind: Service\nspec: {clusterIP: 10.0.0.1}\n", wantLine: 1, wantField: "metadata.name", wantText: "must be set"},
		{name: "no kind", in: "a: b\n", wantLine: 1, wantText: "must be set"},
		{name: "not an object", in: "- a\n", wantLine: 1},
		{name: "an item that is no object", in: "apiVersion: v1\nkind: List\nitems:\n- 7\n", wantLine: 4, wantField: "items[0]."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.in))
			d, ok := errors.AsType[*DecodeError](err)
			if !ok {
				t.Fatalf("Decode() = %v, want a *DecodeError", err)
			}
			if d.Line != tt.wantLine || d.Field != tt.wantField || !strings.Contains(d.Reason, tt.wantText) {
				t.Errorf("Decode() = %v (field %q), want line %d, field %q, %q", err, d.Field, tt.wantLine, tt.wantField, tt.wantText)
			}
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(twoDocuments))
	f.Add([]byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}]}`))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [7, null, []]\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Add([]byte("---\n...\n%YAML 1.1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := Decode(data)
		if (m == nil) == (err == nil) {
			t.Fatalf("Decode() = %v, %v", m, err)
		}
		if err != nil {
			if _, ok := errors.AsType[*DecodeError](err); !ok {
				t.Fatalf("error %v is a %T", err, err)
			}
			return
		}
		for _, svc := range m.Services {
			if svc.Name == "" || svc.Namespace == "" {
				t.Errorf("a Service without name: %v", svc)
			}
			selects(svc)
		}
	})
}

func FuzzDecodePods(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"status":{"podIPs":[{"ip":"10.0.0.1"}]}}]}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"PodList","items":null}`))
	f.Add([]byte(`{"kind":"PodList"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := decodePods(data)
		if err != nil && pods != nil {
			t.Errorf("decodePods() = %v, %v", pods, err)
		}
		svc := &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Port: 80}}}}
		buildSlices(svc, pods, "node-a")
	})
}
