package probes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// question is an HTTP probe whose request is made, to be sent in each of its attempts.
type question struct {
	HTTP
	addr string // host:port to send text to; empty if it is no plain HTTP/1.1
	text []byte // the request
}

// question makes the request.
func (h HTTP) question() (*question, error) {
	req, err := h.request()
	if err != nil {
		return nil, err
	}
	q := &question{HTTP: h}
	if req.URL.Scheme != "http" || h.HTTP2 || req.URL.User != nil { // net/http makes a header of a user
		return q, nil
	}
	q.addr = hostPort(req)
	q.text, err = encode(req)
	return q, err
}

// encode returns a request as it is sent.
func encode(req *http.Request) ([]byte, error) {
	var out bytes.Buffer
	if err := req.Write(&out); err != nil {
		return nil, err
	}
	return bytes.Clone(out.Bytes()), nil
}

// Probe makes one attempt.
func (q *question) Probe(ctx context.Context) (Result, error) {
	rt := &carrier{reach: q.Reach, http2: q.HTTP2}
	defer rt.close()
	resp, err := q.ask(ctx, rt)
	if err != nil {
		return unanswered(ctx, err, "Client.Timeout exceeded while awaiting headers")
	}
	defer resp.Body.Close()
	body, err := readBody(resp)
	if err != nil {
		err = &url.Error{Op: "Get", URL: q.URL, Err: fmt.Errorf("read the body of the response: %w", err)}
		return unanswered(ctx, err, "Client.Timeout or context cancellation while reading body")
	}
	return judge(resp, body), nil
}

// ask returns the response, whose body is still to be read. A client of net/http is needed
// only where there is more to do than to send a text and read the answer.
func (q *question) ask(ctx context.Context, rt *carrier) (*http.Response, error) {
	if q.addr != "" {
		resp, err := exchange(ctx, q.Reach, q.addr, q.text)
		if err != nil {
			return nil, &url.Error{Op: "Get", URL: q.URL, Err: err} // as the client does
		}
		if !redirects(resp) {
			return resp, nil
		}
		rt.first = resp
	}
	req, err := q.request()
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: rt, CheckRedirect: stayOnHost}
	return client.Do(req.WithContext(ctx))
}

// readBody reads as much of a body as a Result can hold.
func readBody(resp *http.Response) ([]byte, error) {
	if resp.ContentLength < 0 || resp.ContentLength > MaxOutput {
		return io.ReadAll(io.LimitReader(resp.Body, MaxOutput))
	}
	body := make([]byte, resp.ContentLength)
	_, err := io.ReadFull(resp.Body, body)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return body, err
}
