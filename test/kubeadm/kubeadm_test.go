package kubeadm_test

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/examples/kubelet/doctor"
	"github.com/nodekit-go/nodekit/test/cluster"
	"github.com/nodekit-go/nodekit/test/cluster/clustertest"
	"github.com/nodekit-go/nodekit/test/testnode"
)

const (
	// patience is for a machine with much else to do.
	patience = 5 * time.Minute
	// signedFor is how long the node's certificates last: a node renews its own when seven
	// to nine tenths of its life are over, which began five minutes before it was signed.
	signedFor = 75 * time.Second
	// token is what the machine joins with.
	token = "abcdef.0123456789abcdef"
	// current is the certificate by which the cluster knows the node.
	current = "/var/lib/kubelet/pki/kubelet-client-current.pem"
)

// notOurs is the check of kubeadm that is not for this test to pass: it refuses the kernel's
// version of cgroups.
const notOurs = "SystemVerification"

type object = map[string]any

// TestJoin joins a machine by kubeadm, and has it renew its certificate and its
// configuration.
func TestJoin(t *testing.T) {
	clustertest.Require(t)
	c := clustertest.Start(t, cluster.Config{Name: "kubeadm", NoDNS: true, SignedFor: signedFor})
	m := newMachine(t, c)
	prepareCluster(t, c, m)
	m.join(c)
	if err := m.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := m.checkIdentity()
	m.checkNode()
	m.checkUpgrade()
	m.checkDoctor()
	m.eventually("the certificate is renewed", func(ctx context.Context) error {
		cert, err := m.certificate(ctx)
		if err == nil && cert.SerialNumber.Cmp(first.SerialNumber) == 0 {
			err = fmt.Errorf("it is still that of the start, valid until %s", cert.NotAfter)
		}
		return err
	})
	// Only the new one can be used when the first is over.
	m.eventually("the first certificate is over, and the node lives", func(ctx context.Context) error {
		if time.Now().Before(first.NotAfter) {
			return fmt.Errorf("it is valid until %s", first.NotAfter)
		}
		out, err := c.Kubectl(ctx, "", "get", "lease", m.NodeName(), "-n", "kube-node-lease", "-o", "jsonpath={.spec.renewTime}")
		if err != nil {
			return err
		}
		renewed, err := time.Parse(time.RFC3339, out)
		if err == nil && !renewed.After(first.NotAfter) {
			err = fmt.Errorf("the Lease was renewed at %s, before that", renewed)
		}
		return err
	})
	if err := m.WaitReady(t.Context()); err != nil {
		t.Error(err)
	}
	if m.service.Exited() {
		t.Error("the kubelet ended")
	}
}

// prepareCluster makes in the cluster what kubeadm init would have made for those who join.
func prepareCluster(t *testing.T, c *cluster.Cluster, m *machine) {
	t.Helper()
	config := writeConfig(t, c.Plane().Dir("kubeadm.yaml"),
		object{
			"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "InitConfiguration",
			"bootstrapTokens":  []object{{"token": token, "ttl": "1h0m0s"}},
			"localAPIEndpoint": object{"advertiseAddress": host(c), "bindPort": 6443},
			"nodeRegistration": object{"name": "plane", "criSocket": "unix://" + m.Socket()},
		},
		object{
			"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "ClusterConfiguration",
			"kubernetesVersion": "v1.37.2", "controlPlaneEndpoint": host(c) + ":6443",
			"networking": object{"podSubnet": cluster.PodRange, "serviceSubnet": cluster.ServiceRange, "dnsDomain": cluster.ClusterDomain},
		},
		object{
			"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
			"cgroupDriver": "cgroupfs", "cgroupRoot": m.CgroupRoot(), "failSwapOn": false, "failCgroupV1": false,
			"featureGates": object{"KubeletInUserNamespace": true},
			// The machine's disk is not the node's to guard.
			"evictionHard":                object{"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"},
			"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
			"nodeStatusUpdateFrequency": "2s",
		},
	)
	for _, phase := range [][]string{{"upload-config", "all"}, {"bootstrap-token", "--skip-token-print"}} {
		args := append([]string{"init", "phase"}, phase...)
		output(t, c.Plane().Command(t.Context(), m.kubeadm, append(args, "--config", config, "--kubeconfig", c.Kubeconfig())...))
	}
}

// host is the address of the API server.
func host(c *cluster.Cluster) string {
	return strings.TrimSuffix(strings.TrimPrefix(c.URL(), "https://"), ":6443")
}

// join runs kubeadm join, and starts the kubelet when kubeadm would have systemd do so.
func (m *machine) join(c *cluster.Cluster) {
	m.t.Helper()
	config := writeConfig(m.t, m.Dir("join.yaml"), object{
		"apiVersion": "kubeadm.k8s.io/v1beta4", "kind": "JoinConfiguration",
		"discovery": object{"bootstrapToken": object{
			"apiServerEndpoint": host(c) + ":6443", "token": token, "unsafeSkipCAVerification": true,
		}},
		"nodeRegistration": object{
			"name": m.NodeName(), "criSocket": "unix://" + m.Socket(),
			"taints": []object{{"key": "nodekit.test/joined", "effect": "NoSchedule"}},
			"kubeletExtraArgs": []object{
				{"name": "node-ip", "value": m.Address().String()},
				{"name": "node-labels", "value": "nodekit.test/joined-by=kubeadm"},
				{"name": "v", "value": "2"},
			},
			"ignorePreflightErrors": []string{notOurs},
		},
	})
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	log, err := os.Create(filepath.Join(m.Dir(), "join.log"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	cmd := m.command(ctx, m.kubeadm, "join", "--config", config, "-v=2")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	// It writes these flags last of all before it starts the service.
	m.eventually("kubeadm starts the kubelet", func(ctx context.Context) error {
		select {
		case err := <-ended:
			ended <- err
			return testnode.Fatal(fmt.Errorf("kubeadm join ended before: %w\n%s", err, tail(log.Name())))
		default:
		}
		_, err := m.read(ctx, "/var/lib/kubelet/kubeadm-flags.env")
		return err
	})
	if err := m.startService(ctx); err != nil {
		m.t.Error(err)
		cancel()
	}
	if err := <-ended; err != nil {
		m.t.Fatalf("kubeadm join: %v\n%s", err, tail(log.Name()))
	}
}

// tail returns what a log says last.
func tail(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-6000):])
}

func (m *machine) eventually(what string, check func(context.Context) error) {
	m.t.Helper()
	if err := testnode.Eventually(m.t.Context(), patience, what, check); err != nil {
		m.t.Fatal(err)
	}
}

// certificate reads the one by which the cluster knows the node.
func (m *machine) certificate(ctx context.Context) (*x509.Certificate, error) {
	text, err := m.read(ctx, current)
	if err != nil {
		return nil, err
	}
	for rest := []byte(text); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New(current + " holds no certificate")
		}
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
}

// checkIdentity wants what a bootstrap leaves, and returns the node's certificate.
func (m *machine) checkIdentity() *x509.Certificate {
	m.t.Helper()
	kubeconfig, err := m.read(m.t.Context(), "/etc/kubernetes/kubelet.conf")
	if err != nil || !strings.Contains(kubeconfig, current) {
		m.t.Errorf("kubelet.conf is %s, %v; want one that names %s", kubeconfig, err, current)
	}
	if _, err := m.read(m.t.Context(), "/etc/kubernetes/bootstrap-kubelet.conf"); err == nil {
		m.t.Error("the file with the token is still there")
	}
	cert, err := m.certificate(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	if got := cert.Subject.String(); got != "CN=system:node:"+m.NodeName()+",O=system:nodes" {
		m.t.Errorf("the certificate is of %s", got)
	}
	return cert
}

// checkNode wants a Node as kubeadm asked for it.
func (m *machine) checkNode() {
	m.t.Helper()
	node, err := m.Object(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	if got := node.Labels["nodekit.test/joined-by"]; got != "kubeadm" {
		m.t.Errorf("label is %q", got)
	}
	tainted := false
	for _, taint := range node.Spec.Taints {
		tainted = tainted || taint.Key == "nodekit.test/joined" && taint.Effect == "NoSchedule"
	}
	if !tainted {
		m.t.Errorf("taints are %v", node.Spec.Taints)
	}
	version := strings.TrimPrefix(strings.TrimSpace(output(m.t, m.command(m.t.Context(), "kubelet", "--version"))), "Kubernetes ")
	if got := node.Status.NodeInfo.KubeletVersion; got != version || !strings.HasPrefix(got, "v1.37.2+nodekit.") {
		m.t.Errorf("the Node has version %s, the program says %s", got, version)
	}
}

// checkUpgrade wants kubeadm to find all that it needs for an upgrade of the node.
func (m *machine) checkUpgrade() {
	m.t.Helper()
	out := output(m.t, m.command(m.t.Context(), m.kubeadm, "upgrade", "node", "--dry-run", "--ignore-preflight-errors="+notOurs))
	for _, want := range []string{"config.yaml", "clientCAFile: /etc/kubernetes/pki/ca.crt", "kubelet configuration for this node was successfully upgraded"} {
		if !strings.Contains(out, want) {
			m.t.Errorf("the dry run does not say %q:\n%s", want, out)
		}
	}
}

// checkDoctor wants the doctor to find nothing wrong with what this test has set up. It takes
// kubeadm's files by itself.
func (m *machine) checkDoctor() {
	m.t.Helper()
	cmd := m.command(m.t.Context(), "kubelet", "doctor", "-o", "json", "--hostname-override", m.NodeName(), "--config", "/var/lib/kubelet/config.yaml")
	out, err := cmd.Output()
	var findings []doctor.Finding
	if decode := json.Unmarshal(out, &findings); decode != nil {
		m.t.Fatalf("kubelet doctor: %v, %v: %s", err, decode, out)
	}
	ok := map[string]bool{}
	for _, f := range findings {
		ok[f.Check] = f.Status == doctor.OK
		if f.Status != doctor.OK {
			m.t.Logf("%+v", f)
		}
	}
	for _, check := range []string{"configuration", "kubelet", "runtime", "cgroup driver", "network", "API server", "certificates", "clock", "Node", "Lease", "ports"} {
		if !ok[check] {
			m.t.Errorf("the doctor finds a problem: %s", check)
		}
	}
}
