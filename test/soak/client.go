package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/nodekit-go/nodekit/test/testnode"
)

const (
	// requestPeriod is the pause between two requests of a client.
	requestPeriod = 250 * time.Millisecond
	// requestLimit is how long a request may take, the connection to it included. An
	// address whose endpoint is gone does not answer in this time either.
	requestLimit = time.Minute
	// slow is what a request takes that is counted as slow, which is no failure.
	slow = time.Second
)

// patiently dials from a node's network namespace and leaves the limit to the request.
func patiently(node *testnode.Node) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return node.DialWithin(ctx, requestLimit, network, address)
	}
}

// client sends requests to one address, one after the other.
type client struct {
	name string
	url  string
	http *http.Client
	log  *log
}

// newClient makes a client on a node, which has a new connection for each request, or one
// for all.
func newClient(name, url string, from *testnode.Node, keepAlive bool) *client {
	connections := ", new connections"
	if keepAlive {
		connections = ", one connection"
	}
	return &client{name: name + connections, url: url, http: &http.Client{
		Timeout:   requestLimit,
		Transport: &http.Transport{DialContext: patiently(from), DisableKeepAlives: !keepAlive, MaxConnsPerHost: 1},
	}}
}

// run sends requests until ctx ends. A request that is under way then is waited for.
func (c *client) run(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	ticks := time.NewTicker(requestPeriod)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		began := time.Now()
		_, err := get(context.WithoutCancel(ctx), c.http, c.url)
		c.log.request(c.name, time.Since(began) > slow, err)
	}
}

// get returns what a server answers, at most a megabyte.
func get(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("GET %s: %w", url, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("GET %s: %s: %.200s", url, response.Status, body)
	case len(body) == 0:
		return nil, errors.New("GET " + url + ": the answer is empty")
	}
	return body, nil
}
