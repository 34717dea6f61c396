package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"time"
)

// apiClient asks the API server as an administrator.
type apiClient struct {
	url    string
	client *http.Client
}

func (c *Cluster) newAPIClient() (*apiClient, error) {
	cert, err := tls.LoadX509KeyPair(c.pki("admin.crt"), c.pki("admin.key"))
	if err != nil {
		return nil, fmt.Errorf("load credentials of the administrator: %w", err)
	}
	ca, err := os.ReadFile(c.ca.certFile())
	if err != nil {
		return nil, fmt.Errorf("load certificate of the authority: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &apiClient{url: c.URL(), client: c.httpClient(&tls.Config{
		Certificates: []tls.Certificate{cert}, RootCAs: roots,
	})}, nil
}

// httpClient returns a client beside the API server, with a new connection per request.
func (c *Cluster) httpClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		DialContext: c.plane.Dial, TLSClientConfig: config, DisableKeepAlives: true,
	}}
}

// get asks for a path and decodes the answer into value, unless that is nil.
func (a *apiClient) get(ctx context.Context, path string, value any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return err
	}
	data, err := answer(a.client, request)
	if err != nil || value == nil {
		return err
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("get %s: decode the answer: %w", path, err)
	}
	return nil
}

// patch merges a patch (RFC 7386) into an object.
func (a *apiClient) patch(ctx context.Context, path string, patch any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch %s: %w", path, err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, a.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	_, err = answer(a.client, request)
	return err
}

func answer(client *http.Client, request *http.Request) ([]byte, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err // It names method and URL.
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %.300s", response.Status, data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", request.Method, request.URL, err)
	}
	return data, nil
}

// answers returns a check that a health check on the control plane answers.
func (c *Cluster) answers(url string) func(context.Context) error {
	return check(c.httpClient(nil), url)
}

// answersTLS is answers for servers that made their own certificate.
func (c *Cluster) answersTLS(url string) func(context.Context) error {
	return check(c.httpClient(&tls.Config{InsecureSkipVerify: true}), url)
}

func check(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		_, err = answer(client, request)
		return err
	}
}

// Kubectl runs kubectl as an administrator, with input as its standard input, and
// returns what it printed. An error holds what it complained of.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd, err := c.KubectlCommand(ctx, args...)
	if err != nil {
		return "", err
	}
	cmd.Stdin = bytes.NewBufferString(input)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("kubectl %v: %w: %s", args, err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out.String(), nil
}

// KubectlCommand returns a command that runs kubectl as an administrator.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) (*exec.Cmd, error) {
	binary, err := c.binaries.kubernetes(ctx, "kubectl")
	if err != nil {
		return nil, err
	}
	return c.plane.Command(ctx, binary, append([]string{"--kubeconfig", c.admin}, args...)...), nil
}
