package probes

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/net/http/httpguts"
)

// UserAgent is what the probers call themselves: the kubelet's words with the
// version of Kubernetes whose behaviour they have.
const UserAgent = "kube-probe/1.37"

// maxRedirects is the number of requests after which following stops; it is the
// bound of the kubelet, and of net/http.
const maxRedirects = 10

// HTTP probes a container with a GET request. A status from 200 to 399 is a
// Success. A redirect to the same host is followed; one to another host is a
// Warning, since that host's health is not this container's. Each attempt has its
// own connection. Certificates are not verified, proxies of the environment are
// not used, and no compression is asked for.
type HTTP struct {
	// URL is what to get, with scheme http or https; required. HTTP/2 is spoken with
	// an https server that offers it.
	URL string
	// Header is sent along. User-Agent and Accept have defaults, UserAgent and */*,
	// which an empty value removes. Host replaces the host of URL in the request.
	Header http.Header
	// HTTP2 rules out HTTP/1.1: an http URL then uses HTTP/2 from the first byte, and
	// an https URL fails when the server does not offer it.
	HTTP2 bool
	// Reach decides which addresses may be connected to; nil: every one.
	Reach Reach
}

// Probe makes one attempt. Everything that goes wrong between here and the end
// of the response is a Failure, a response that stalls included. A request that
// cannot be made is an error.
func (h HTTP) Probe(ctx context.Context) (Result, error) {
	q, err := h.question()
	if err != nil {
		return Result{}, err
	}
	return q.Probe(ctx)
}

// request builds the request of an attempt, without its context.
func (h HTTP) request() (*http.Request, error) {
	req, err := http.NewRequest(http.MethodGet, h.URL, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make a request for %q: %w", h.URL, err)
	}
	req.Close = true
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" || req.URL.Host == "" {
		return nil, fmt.Errorf("make a request for %q: the URL must be http://host or https://host", h.URL)
	}
	header := make(http.Header, len(h.Header)+2)
	header["User-Agent"], header["Accept"] = []string{UserAgent}, []string{"*/*"}
	for name, values := range h.Header {
		if err := checkHeader(name, values); err != nil {
			return nil, fmt.Errorf("make a request for %q: %w", h.URL, err)
		}
		header[http.CanonicalHeaderKey(name)] = values
	}
	if header.Get("Accept") == "" {
		header.Del("Accept")
	}
	if host := header.Get("Host"); host != "" {
		req.Host = host
	}
	header.Del("Host")
	req.Header = header
	return req, nil
}

// checkHeader names what cannot be sent in a header.
func checkHeader(name string, values []string) error {
	if !httpguts.ValidHeaderFieldName(name) {
		return fmt.Errorf("%q is no name for a header", name)
	}
	for _, v := range values {
		if !httpguts.ValidHeaderFieldValue(v) {
			return fmt.Errorf("header %s has a value that cannot be sent: %q", name, v)
		}
	}
	return nil
}

// stayOnHost stops at a redirect that leads to another host, and after too many.
func stayOnHost(req *http.Request, via []*http.Request) error {
	if req.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= maxRedirects {
		return fmt.Errorf("stopped after %d redirects", maxRedirects)
	}
	return nil
}

// judge turns a whole response into a Result.
func judge(resp *http.Response, body []byte) Result {
	switch {
	case resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest:
		// The body may hold what is not meant for those who may read events.
		return Failed("HTTP probe failed with statuscode: %d", resp.StatusCode)
	case redirects(resp): // and stayOnHost did not let it
		text := fmt.Sprintf("Probe terminated redirects, Response body: %s", body)
		return Result{Outcome: Warning, Message: clip(text, MaxOutput)}
	}
	return Result{Outcome: Success, Message: clip(body, MaxOutput)}
}

// redirects reports whether resp leads somewhere else.
func redirects(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return resp.Header.Get("Location") != ""
	}
	return false
}

// unanswered turns the error of an exchange into a Failure, or into an error when
// it tells nothing about the server. late is what net/http adds to the error of a
// client whose time is over; alerts look for it.
func unanswered(ctx context.Context, err error, late string) (Result, error) {
	if noAnswer(ctx, err) {
		return Result{}, err
	}
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text += " (" + late + ")"
	}
	return Failed("%s", text), nil
}
