package probes

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// maxHeader bounds what a server may send before the body of its response. Real
// headers are far smaller; net/http allows clients of its server as much.
const maxHeader = 1 << 20

// carrier is the RoundTripper of one attempt. Plain HTTP/1.1 needs none of the
// machinery that net/http has for connections in use more than once; the rest is
// left to it.
type carrier struct {
	reach Reach
	http2 bool
	first *http.Response  // to the first request, if it was made before
	full  *http.Transport // nil until it is needed
}

// RoundTrip sends req and reads the header of the response. Closing the body
// closes the connection.
func (c *carrier) RoundTrip(req *http.Request) (*http.Response, error) {
	if resp := c.first; resp != nil {
		c.first = nil
		return resp, nil
	}
	if req.URL.Scheme == "http" && !c.http2 {
		text, err := encode(req)
		if err != nil {
			return nil, err
		}
		return exchange(req.Context(), c.reach, hostPort(req), text)
	}
	if c.full == nil {
		c.full = newTransport(c.reach, c.http2)
	}
	return c.full.RoundTrip(req)
}

// close ends the attempt.
func (c *carrier) close() {
	if c.full != nil {
		c.full.CloseIdleConnections()
	}
}

// newTransport returns a transport for https, or for HTTP/2 only.
func newTransport(reach Reach, http2 bool) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(http2)
	return &http.Transport{
		// A container's certificate is rarely made out to its address; the API defines
		// https probes as unverified.
		TLSClientConfig:        &tls.Config{InsecureSkipVerify: true},
		DialContext:            func(ctx context.Context, _, addr string) (net.Conn, error) { return reach.dial(ctx, addr) },
		Protocols:              &protocols,
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeader,
	}
}

// exchange sends a request of HTTP/1.1 on a connection of its own, and reads the header of
// the response. Closing the body closes the connection.
func exchange(ctx context.Context, reach Reach, addr string, request []byte) (*http.Response, error) {
	conn, err := reach.dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	resp, err := sendAndReceive(conn, request)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, interrupted(ctx, err)
	}
	resp.Body = &connBody{
		body:   resp.Body,
		conn:   conn,
		stop:   stop,
		reason: func(err error) error { return interrupted(ctx, err) },
	}
	return resp, nil
}

// interrupted returns the error of the context in place of err, which is that of
// the connection, when it was the context that ended the exchange.
func interrupted(ctx context.Context, err error) error {
	if cause := ctx.Err(); cause != nil {
		return cause
	}
	return err
}

// readSize is what most responses of servers to probes fit into.
const readSize = 1 << 10

// sendAndReceive writes a request to conn and reads the header of the response.
func sendAndReceive(conn net.Conn, request []byte) (*http.Response, error) {
	if _, err := conn.Write(request); err != nil {
		return nil, err
	}
	limit := &io.LimitedReader{R: conn, N: maxHeader}
	resp, err := readFinal(bufio.NewReaderSize(limit, readSize))
	if err != nil {
		if limit.N <= 0 {
			return nil, fmt.Errorf("the header of the response is larger than %d bytes", maxHeader)
		}
		return nil, err
	}
	limit.N = maxHeader
	return resp, nil
}

// readFinal reads responses to a GET until one is not merely informational.
func readFinal(r *bufio.Reader) (*http.Response, error) {
	for {
		resp, err := http.ReadResponse(r, nil)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, io.EOF
		}
		if err != nil {
			return nil, err
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
}

// connBody is the body of a response, and the connection it comes from.
type connBody struct {
	body   io.Reader
	conn   net.Conn
	stop   func() bool
	reason func(error) error
}

// Read reads the body and says why it ended early.
func (b *connBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.reason(err)
	}
	return n, err
}

// Close closes the connection. The rest of the body is not waited for.
func (b *connBody) Close() error {
	b.stop()
	return b.conn.Close()
}

// hostPort returns where to connect for req.
func hostPort(req *http.Request) string {
	port := req.URL.Port()
	if port == "" {
		port = "80"
	}
	return net.JoinHostPort(req.URL.Hostname(), port)
}
