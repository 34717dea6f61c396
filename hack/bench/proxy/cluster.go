package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cluster is etcd and an API server in the namespace of the control plane.
type cluster struct {
	size      size
	mode      string
	net       *network
	dir       string
	client    *http.Client
	processes []*exec.Cmd
	endpoints io.Closer
}

const (
	adminToken = "admin"
	proxyToken = "proxy"
	apiURL     = "https://" + controlAddr + ":6443"
	etcdURL    = "http://" + controlAddr + ":2379"
)

func startCluster(ctx context.Context, t tools, n *network, dir string, z size, p programming) (*cluster, error) {
	c := &cluster{size: z, mode: p.mode, net: n, dir: dir}
	// Requests go through the node's namespace, as those of its proxy do.
	dial := func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		return conn, inside(n.node, func() error {
			conn, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, network, addr)
			return err
		})
	}
	c.client = &http.Client{Transport: &http.Transport{DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	http.DefaultClient = &http.Client{Transport: &http.Transport{DialContext: dial}}
	var err error
	if c.endpoints, err = serveEndpoints(n); err == nil {
		err = c.start(ctx, t)
	}
	if err != nil {
		c.stop()
		return nil, fmt.Errorf("%w\n%s", err, tail(filepath.Join(dir, "kube-apiserver.log")))
	}
	return c, nil
}

// tail returns the end of a log.
func tail(path string) []byte {
	log, _ := os.ReadFile(path)
	return log[max(0, len(log)-3000):]
}

func (c *cluster) start(ctx context.Context, t tools) error {
	err := c.process("etcd", t.etcd, "--data-dir", filepath.Join(c.dir, "etcd"), "--unsafe-no-fsync",
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", "http://127.0.0.1:2380", "--quota-backend-bytes", "8589934592", "--log-level", "error")
	if err != nil {
		return err
	}
	if err := c.await(ctx, http.DefaultClient, etcdURL+"/health"); err != nil {
		return err
	}
	if err := c.writeFiles(); err != nil {
		return err
	}
	key := filepath.Join(c.dir, "sa.key")
	err = c.process("kube-apiserver", t.apiserver, "--etcd-servers", etcdURL, "--bind-address", controlAddr, "--secure-port", "6443",
		"--advertise-address", controlAddr, "--cert-dir", filepath.Join(c.dir, "certs"), "--token-auth-file", filepath.Join(c.dir, "tokens"),
		"--authorization-mode", "Node,RBAC", "--service-cluster-ip-range", vips, "--service-account-issuer", "https://bench",
		"--service-account-key-file", key, "--service-account-signing-key-file", key, "--disable-admission-plugins", "ServiceAccount",
		"--event-ttl", "5m")
	if err != nil {
		return err
	}
	if err := c.await(ctx, c.client, apiURL+"/readyz"); err != nil {
		return err
	}
	// Not before: the API server must have looked at all addresses within a minute of its
	// start. Its caches are filled when they have the last of the objects.
	if err := newStore(etcdURL).fill(ctx, c.size); err != nil {
		return fmt.Errorf("fill etcd: %w", err)
	}
	last := serviceName(c.size.services - 1)
	for _, path := range []string{
		"/api/v1/namespaces/" + namespace + "/services/" + last,
		"/apis/discovery.k8s.io/v1/namespaces/" + namespace + "/endpointslices/" + last + "-1",
	} {
		if err := c.await(ctx, c.client, apiURL+path+"?resourceVersion=0"); err != nil {
			return err
		}
	}
	return nil
}

func (c *cluster) writeFiles() error {
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	block := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(private)})
	kubeconfig := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{"token":%q}}]}`, apiURL, proxyToken)
	config := fmt.Sprintf(`apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: %s
hostnameOverride: %s
clusterCIDR: %s
clientConnection: {kubeconfig: %s}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
oomScoreAdj: 0
enableProfiling: true
`, c.mode, nodeName, pods, filepath.Join(c.dir, "kubeconfig"))
	return errors.Join(
		os.WriteFile(filepath.Join(c.dir, "sa.key"), block, 0o600),
		os.WriteFile(filepath.Join(c.dir, "tokens"), []byte(adminToken+",admin,1,system:masters\n"+proxyToken+",system:kube-proxy,2\n"), 0o600),
		os.WriteFile(filepath.Join(c.dir, "kubeconfig"), []byte(kubeconfig), 0o600),
		os.WriteFile(filepath.Join(c.dir, "proxy.yaml"), []byte(config), 0o600))
}

// process starts a program of the control plane.
func (c *cluster) process(name, binary string, args ...string) error {
	cmd, err := startIn(c.net.control, filepath.Join(c.dir, name+".log"), binary, args...)
	if err == nil {
		c.processes = append(c.processes, cmd)
	}
	return err
}

// startIn starts a program in a namespace, with its output in a file.
func startIn(ns, log, binary string, args ...string) (*exec.Cmd, error) {
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	// nsenter executes the program in its own place: the process is the program.
	cmd := exec.Command("nsenter", append([]string{"--net=/run/netns/" + ns, binary}, args...)...)
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	return cmd, nil
}

func (c *cluster) await(ctx context.Context, client *http.Client, url string) error {
	deadline := time.Now().Add(5 * time.Minute)
	for {
		status, _, err := request(ctx, client, http.MethodGet, url, nil)
		if err == nil && status == http.StatusOK {
			return nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("%s is not ready: status %d, %v", url, status, errors.Join(err, ctx.Err()))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func request(ctx context.Context, client *http.Client, method, url string, body any) (int, []byte, error) {
	var in io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		in = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, in)
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	return resp.StatusCode, out, err
}

// api sends one request to the API server and returns when it has answered.
func (c *cluster) api(ctx context.Context, method, path string, body metav1.Object) error {
	var in any
	if body != nil {
		// What was stored has another UID than what is made anew.
		body.SetUID("")
		in = body
	}
	status, out, err := request(ctx, c.client, method, apiURL+path, in)
	if err == nil && status >= 300 {
		err = fmt.Errorf("status %d: %s", status, out)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

func (c *cluster) stop() {
	for i := len(c.processes) - 1; i >= 0; i-- {
		_ = c.processes[i].Process.Kill()
		_ = c.processes[i].Wait()
	}
	if c.endpoints != nil {
		_ = c.endpoints.Close()
	}
}
