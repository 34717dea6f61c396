package staticpods

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// fetchTimeout is the kubelet's limit for one request.
const fetchTimeout = 10 * time.Second

// maxRedirects is as many as Go's own client follows.
const maxRedirects = 10

// newFetcher returns a client that follows redirects, but not from https to http: the
// header may hold a secret, and the pods may do anything on the node.
func newFetcher() *http.Client {
	return &http.Client{CheckRedirect: func(next *http.Request, via []*http.Request) error {
		switch {
		case len(via) >= maxRedirects:
			return fmt.Errorf("more than %d redirects", maxRedirects)
		case via[0].URL.Scheme == "https" && next.URL.Scheme != "https":
			return fmt.Errorf("a redirect leads from https to %s", next.URL.Redacted())
		}
		return nil
	}}
}

// fetch gets a URL and returns the body of an answer with status 200, one byte more than
// MaxBytes at most.
func fetch(ctx context.Context, client *http.Client, address string, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, fetchTimeout, fmt.Errorf("no complete answer within %s", fetchTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		request.Header[http.CanonicalHeaderKey(key)] = values
	}
	request.Host = request.Header.Get("Host") // which is no field of a header to net/http
	response, err := client.Do(request)
	if err != nil {
		return nil, fetchError(ctx, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the answer is %q, want 200 OK", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, MaxBytes+1))
	if err != nil {
		return nil, fetchError(ctx, err)
	}
	return body, nil
}

// fetchError words why there is no answer, the same way for the same reason: without
// the port that the request came from.
func fetchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Addr != nil {
		return fmt.Errorf("%s %s: %w", op.Op, op.Addr, op.Err)
	}
	return err
}

// checkURL says what is wrong with the address of manifests.
func checkURL(address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err // the address may hold a password
		}
		return nil, fmt.Errorf("the URL of the manifests is none: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL of the manifests begins with %q, want http:// or https://", strings.ToLower(u.Scheme))
	case u.Host == "":
		return nil, errors.New("the URL of the manifests names no host")
	}
	return u, nil
}
