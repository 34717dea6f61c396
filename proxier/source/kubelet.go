package source

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// maxAnswer bounds one list of pods; a thousand pods fit in 16 MiB.
const maxAnswer = 64 << 20

// kubelet asks one kubelet for its pods. It is for one goroutine.
type kubelet struct {
	url    string
	name   string // for errors
	client *http.Client
	// etag and sum are those of the last answer.
	etag string
	sum  [sha256.Size]byte
}

func newKubelet(at string) (*kubelet, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("address of the kubelet: %w", err)
	}
	transport := &http.Transport{MaxIdleConns: 1, DisableCompression: true}
	k := &kubelet{name: at, client: &http.Client{Transport: transport}}
	switch {
	case u.Scheme == "unix" && u.Host == "" && strings.HasPrefix(u.Path, "/"):
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", u.Path)
		}
		k.url = "http://kubelet/pods"
	case u.Scheme == "http" && u.Host != "":
		k.url = u.JoinPath("pods").String()
	default:
		return nil, fmt.Errorf("address of the kubelet %q: must be unix:///path/of/socket or http://host:port", at)
	}
	return k, nil
}

func (k *kubelet) close() { k.client.CloseIdleConnections() }

// pods returns the pods of the kubelet, sorted by name, and whether its answer
// differs from the last; if not, the list is nil. It does not decode an answer
// with the ETag or the bytes of the last one.
func (k *kubelet) pods(ctx context.Context) ([]pod, bool, error) {
	body, etag, err := k.get(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("get pods from %s: %w", k.name, err)
	}
	if body == nil {
		return nil, false, nil
	}
	sum := sha256.Sum256(body)
	if sum == k.sum {
		return nil, false, nil
	}
	pods, err := decodePods(body)
	if err != nil {
		return nil, false, fmt.Errorf("get pods from %s: %w", k.name, err)
	}
	k.etag, k.sum = etag, sum
	return pods, true, nil
}

// get returns the body and ETag of an answer, nothing if it has not changed.
func (k *kubelet) get(ctx context.Context) (body []byte, etag string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, "", err
	}
	if k.etag != "" {
		req.Header.Set("If-None-Match", k.etag)
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotModified && k.etag != "" {
		return nil, "", nil
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return nil, "", fmt.Errorf("answer %s: %q", resp.Status, text)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, "", err
	}
	if len(body) > maxAnswer {
		return nil, "", fmt.Errorf("answer is larger than %d MiB", maxAnswer>>20)
	}
	return body, resp.Header.Get("ETag"), nil
}

// decodePods reads a v1.PodList as JSON. It refuses anything else, so that a wrong
// address or half an answer does not count as "no pods".
func decodePods(data []byte) ([]pod, error) {
	var list struct {
		APIVersion string        `json:"apiVersion"`
		Kind       string        `json:"kind"`
		Items      *[]corev1.Pod `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("decode pods: %w", err)
	}
	if list.APIVersion != "v1" || list.Kind != "PodList" {
		return nil, fmt.Errorf("decode pods: it is %q %q, not a v1 PodList", list.APIVersion, list.Kind)
	}
	if list.Items == nil {
		// The kubelet of Kubernetes writes null for no pods.
		if !hasItems(data) {
			return nil, errors.New("decode pods: the list has no items field")
		}
		return nil, nil
	}
	pods := make([]pod, 0, len(*list.Items))
	for i := range *list.Items {
		pods = append(pods, newPod(&(*list.Items)[i]))
	}
	slices.SortFunc(pods, pod.compare)
	return pods, nil
}

func hasItems(data []byte) bool {
	var fields map[string]json.RawMessage
	err := json.Unmarshal(data, &fields)
	_, ok := fields["items"]
	return err == nil && ok
}
