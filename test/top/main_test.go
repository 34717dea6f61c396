package top_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/testnode"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

// patience is how long a test waits for what has to come.
const patience = 2 * time.Minute

// objects are what metrics-server needs: an account with rights to read the metrics of nodes
// and no others of theirs, and a Service by which the API server finds it.
const objects = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-server, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-server}
rules:
- {apiGroups: [""], resources: [nodes/metrics], verbs: [get]}
- {apiGroups: [""], resources: [pods, nodes], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-server}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-server-delegator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: system:auth-delegator}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: metrics-server-reader, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: extension-apiserver-authentication-reader}
subjects: [{kind: ServiceAccount, name: metrics-server, namespace: kube-system}]
---
apiVersion: v1
kind: Service
metadata: {name: metrics-server, namespace: kube-system}
spec:
  ports: [{name: https, port: 443, targetPort: 4443}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: metrics-server, namespace: kube-system, labels: {kubernetes.io/service-name: metrics-server}}
addressType: IPv4
ports: [{name: https, port: 4443}]
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  service: {name: metrics-server, namespace: kube-system}
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
`

// kubectl runs kubectl and returns what it prints.
func kubectl(t *testing.T, c *cluster.Cluster, input string, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), input, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// eventually waits until a check passes.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := testnode.Eventually(t.Context(), patience, what, check); err != nil {
		t.Fatal(err)
	}
}

// startMetricsServer starts metrics-server beside the API server. It ends with the cluster.
func startMetricsServer(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	program, err := testnode.ToolOf(t.Context(), "metrics-server", "test/tools/metrics")
	if err != nil {
		t.Fatal(err)
	}
	server, err := url.Parse(c.URL())
	if err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, strings.ReplaceAll(objects, "ADDRESS", server.Hostname()), "apply", "-f", "-")
	token := strings.TrimSpace(kubectl(t, c, "", "-n", "kube-system", "create", "token", "metrics-server"))
	type object = map[string]any
	raw, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": []object{{"name": "c", "cluster": object{"server": c.URL(), "certificate-authority": c.Plane().Dir("pki", "ca.crt")}}},
		"users":    []object{{"name": "u", "user": object{"token": token}}},
		"contexts": []object{{"name": "c", "context": object{"cluster": "c", "user": "u"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := c.Plane().Dir("metrics-server.kubeconfig")
	if err := os.WriteFile(kubeconfig, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = c.Plane().StartProcess("metrics-server", program,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--secure-port=4443", "--cert-dir="+c.Plane().Dir("metrics-server-certs"),
		"--kubelet-certificate-authority="+c.Plane().Dir("pki", "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--metric-resolution=10s", "--kubelet-request-timeout=9s")
	if err != nil {
		t.Fatal(err)
	}
}

// node returns what a kubelet answers at a path, by way of the API server.
func node(ctx context.Context, c *cluster.Cluster, path string) (string, error) {
	return c.Kubectl(ctx, "", "get", "--raw", fmt.Sprintf("/api/v1/nodes/%s/proxy/%s", c.Node(0).NodeName(), path))
}
