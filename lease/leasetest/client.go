package leasetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Client is a client for Leases and Nodes. It asks once: nothing is tried again.
type Client struct {
	// Base is the URL of the server, like "https://10.0.0.10:6443".
	Base string
	// HTTP sends the requests; nil: http.DefaultClient.
	HTTP *http.Client
}

// Direct returns a client whose requests a handler serves in the goroutine of the
// caller, without a network. When a request's context ends, so does the request; the
// handler has to notice it too.
func Direct(h http.Handler) Client {
	return Client{Base: "http://direct", HTTP: &http.Client{Transport: direct{h}}}
}

type direct struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	d.handler.ServeHTTP(rec, req)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

// Leases returns the Leases of a namespace.
func (c Client) Leases(namespace string) Leases {
	return Leases{client: c, path: "/apis/coordination.k8s.io/v1/namespaces/" + url.PathEscape(namespace) + "/leases"}
}

// Nodes returns the Nodes.
func (c Client) Nodes() Nodes { return Nodes{client: c} }

// call is a request: what is asked for, and what is sent.
type call struct {
	method, path, contentType string
	body                      []byte
}

func (r call) String() string { return r.method + " " + r.path }

// do sends one request. An answer that is no success is the error of its Status.
func (c Client) do(ctx context.Context, r call, into any) error {
	req, err := http.NewRequestWithContext(ctx, r.method, c.Base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("%s: %w", r, err)
	}
	if len(r.body) > 0 {
		req.Header.Set("Content-Type", r.contentType)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("%s: read the answer: %w", r, err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return failure(r, resp.StatusCode, data)
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: decode the answer: %w", r, err)
	}
	return nil
}

// failure returns the error that an answer stands for.
func failure(r call, code int, data []byte) error {
	status := metav1.Status{}
	if json.Unmarshal(data, &status) == nil && status.Status == metav1.StatusFailure {
		return apierrors.FromObject(&status)
	}
	return fmt.Errorf("%s: the server answered %d: %.200s", r, code, data)
}

// send encodes an object and sends it.
func (c Client) send(ctx context.Context, method, path string, object, into any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return c.do(ctx, call{method, path, "application/json", data}, into)
}

// Leases is the API of the Leases of one namespace. It has the methods that lease.Client
// asks for.
type Leases struct {
	client Client
	path   string
}

// Get returns a Lease.
func (l Leases) Get(ctx context.Context, name string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	got := &coordinationv1.Lease{}
	if err := l.client.do(ctx, call{method: http.MethodGet, path: l.path + "/" + url.PathEscape(name)}, got); err != nil {
		return nil, err
	}
	return got, nil
}

// Create creates a Lease.
func (l Leases) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	got := &coordinationv1.Lease{}
	if err := l.client.send(ctx, http.MethodPost, l.path, lease, got); err != nil {
		return nil, err
	}
	return got, nil
}

// Update replaces a Lease.
func (l Leases) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	got := &coordinationv1.Lease{}
	if err := l.client.send(ctx, http.MethodPut, l.path+"/"+url.PathEscape(lease.Name), lease, got); err != nil {
		return nil, err
	}
	return got, nil
}

// Nodes is the API of the Nodes. It has the methods that nodestatus.Client asks for.
type Nodes struct{ client Client }

const nodesPath = "/api/v1/nodes"

// Get returns a Node.
func (n Nodes) Get(ctx context.Context, name string, opts metav1.GetOptions) (*corev1.Node, error) {
	path := nodesPath + "/" + url.PathEscape(name)
	if opts.ResourceVersion != "" {
		path += "?resourceVersion=" + url.QueryEscape(opts.ResourceVersion)
	}
	got := &corev1.Node{}
	if err := n.client.do(ctx, call{method: http.MethodGet, path: path}, got); err != nil {
		return nil, err
	}
	return got, nil
}

// Create creates a Node.
func (n Nodes) Create(ctx context.Context, node *corev1.Node, _ metav1.CreateOptions) (*corev1.Node, error) {
	got := &corev1.Node{}
	if err := n.client.send(ctx, http.MethodPost, nodesPath, node, got); err != nil {
		return nil, err
	}
	return got, nil
}

// Patch changes a Node, or its subresource.
//
//nolint:revive // the signature is client-go's
func (n Nodes) Patch(ctx context.Context, name string, kind types.PatchType, data []byte, _ metav1.PatchOptions, subresources ...string) (*corev1.Node, error) {
	path := strings.Join(append([]string{nodesPath, url.PathEscape(name)}, subresources...), "/")
	got := &corev1.Node{}
	if err := n.client.do(ctx, call{http.MethodPatch, path, string(kind), data}, got); err != nil {
		return nil, err
	}
	return got, nil
}
