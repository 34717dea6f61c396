package testnode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NodeName is what kubelet and kube-proxy call the node.
const NodeName = "node-a"

// startLimit is how long a program may take until its health check answers.
const startLimit = 30 * time.Second

// Kubelet is a kubelet that runs on a node.
type Kubelet struct {
	*Process
	client *http.Client
}

// StartKubelet is LaunchKubelet, and waits until the health check answers.
func (n *Node) StartKubelet(ctx context.Context, binary string, settings ...map[string]any) (*Kubelet, error) {
	k, err := n.LaunchKubelet(binary, settings...)
	if err != nil {
		return nil, err
	}
	if err := n.waitHealthy(ctx, k.Process, "http://127.0.0.1:10248/healthz"); err != nil {
		return nil, err
	}
	return k, nil
}

// LaunchKubelet starts the binary on the node in standalone mode, with manifests
// from [Node.Manifests], and returns at once. Fields of its configuration that are among
// the settings replace those of the node.
func (n *Node) LaunchKubelet(binary string, settings ...map[string]any) (*Kubelet, error) {
	config := map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"containerRuntimeEndpoint": "unix://" + n.Socket(),
		"staticPodPath":            n.Manifests(),
		"podLogsDir":               n.PodLogs(),
		"cgroupRoot":               n.CgroupRoot(),
		"healthzBindAddress":       "127.0.0.1",
		"healthzPort":              10248,
		"fileCheckFrequency":       "2s",
		// The machine's kernel, swap and disk are not the node's to see to.
		"failSwapOn":   false,
		"featureGates": map[string]bool{"KubeletInUserNamespace": true},
		"evictionHard": map[string]string{"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%"},
		// Nor are images of other tests removed because that disk is nearly full.
		"imageGCHighThresholdPercent": 100,
	}
	for _, s := range settings {
		maps.Copy(config, s)
	}
	file, err := n.writeConfig("kubelet.yaml", config)
	if err != nil {
		return nil, err
	}
	process, err := n.StartProcess("kubelet", binary,
		"--config", file, "--hostname-override", NodeName, "--root-dir", n.KubeletRoot())
	if err != nil {
		return nil, err
	}
	return &Kubelet{Process: process, client: unixClient(filepath.Join(n.KubeletRoot(), "kubelet.sock"))}, nil
}

// Pods returns the kubelet's pods with their status.
func (k *Kubelet) Pods(ctx context.Context) ([]corev1.Pod, error) {
	data, err := k.Get(ctx, "/pods")
	if err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode the kubelet's pods: %w", err)
	}
	return list.Items, nil
}

// Pod returns the kubelet's pod of that name, or an error when there is none.
func (k *Kubelet) Pod(ctx context.Context, name string) (*corev1.Pod, error) {
	pods, err := k.Pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Name == name {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("the kubelet has no pod %s", name)
}

// Get asks the kubelet at its unix socket, for example for "/manifests".
func (k *Kubelet) Get(ctx context.Context, path string) ([]byte, error) {
	return getURL(ctx, k.client, "http://kubelet"+path)
}

// unixClient returns an HTTP client that knows only one server, at the socket.
func unixClient(socket string) *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

// Client returns an HTTP client that connects from inside the node's network
// namespace, with a new connection per request.
func (n *Node) Client() *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DialContext: n.Dial, DisableKeepAlives: true}}
}

// Get asks a server from inside the node's network namespace and returns the body
// of its answer. Another status than 200 is an error.
func (n *Node) Get(ctx context.Context, address string) ([]byte, error) {
	return getURL(ctx, n.Client(), address)
}

func getURL(ctx context.Context, client *http.Client, address string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		// The URL is in the error already; this is for what net/http puts around.
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		return nil, fmt.Errorf("get %s: %w", address, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", address, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get %s: %s: %.200s", address, response.Status, body)
	}
	return body, nil
}

// writeConfig writes a program's configuration. JSON is YAML as well.
func (n *Node) writeConfig(name string, config map[string]any) (string, error) {
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	path := n.lay.path(name)
	if err := os.WriteFile(path, append(data, '\n'), 0o600); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return path, nil
}

// waitHealthy waits until a program's health check answers 200.
func (n *Node) waitHealthy(ctx context.Context, process *Process, address string) error {
	err := Eventually(ctx, startLimit, process.Name+" is healthy", func(ctx context.Context) error {
		if process.Exited() {
			return Fatal(fmt.Errorf("%s ended at its start: %w", process.Name, process.err))
		}
		_, err := n.Get(ctx, address)
		return err
	})
	if err != nil {
		return fmt.Errorf("start %s (log: %s): %w", process.Name, process.Log, err)
	}
	return nil
}
