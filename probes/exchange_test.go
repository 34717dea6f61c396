package probes

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"testing"
	"unicode/utf8"
)

// replay is a connection on which a server has said something and then closed.
type replay struct {
	net.Conn
	said *bytes.Reader
}

func (r replay) Read(p []byte) (int, error)  { return r.said.Read(p) }
func (r replay) Write(p []byte) (int, error) { return len(p), nil }

// Whatever a server says, there is a verdict with a text that can be shown.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 302 Found\r\nLocation: http://other/\r\n\r\n\xff\xfe",
		"HTTP/1.0 503 no\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nshort",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
		"SSH-2.0-OpenSSH\r\n",
		"",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		ctx := context.WithoutCancel(t.Context())
		var res Result
		resp, err := sendAndReceive(replay{said: bytes.NewReader(said)}, []byte("GET / HTTP/1.1\r\n\r\n"))
		if err == nil {
			var body []byte
			if body, err = readBody(resp); err == nil {
				res = judge(resp, body)
			}
		}
		if err != nil {
			if res, err = unanswered(ctx, err, "late"); err != nil {
				t.Fatalf("no verdict: %v", err)
			}
		}
		if res.Outcome == Unknown || len(res.Message) > MaxOutput || !utf8.ValidString(res.Message) {
			t.Errorf("result is %v with %d bytes", res.Outcome, len(res.Message))
		}
		if healthy := res.Outcome.verdict() == Success; healthy && (resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusBadRequest) {
			t.Errorf("status %d is %v", resp.StatusCode, res.Outcome)
		}
	})
}
