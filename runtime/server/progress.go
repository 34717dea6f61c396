package server

import (
	"net/http"
	"time"
)

// progress writes an answer that may take any time, as long as the client takes what it is
// sent. It implements io.Writer and http.ResponseWriter.
type progress struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
	// begun says that the header is out.
	begun bool
}

// newProgress lifts the limits of ordinary requests.
func newProgress(w http.ResponseWriter, idle time.Duration) *progress {
	p := &progress{ResponseWriter: w, control: http.NewResponseController(w), idle: idle}
	endless(w)
	return p
}

// endless lets a request take any time. Writers that know no deadlines have none.
func endless(w http.ResponseWriter) {
	c := http.NewResponseController(w)
	_ = c.SetReadDeadline(time.Time{})
	_ = c.SetWriteDeadline(time.Time{})
}

// Write sends b at once. Afterwards there is no limit again: HTTP/2 enforces one that passes
// between two writes, too.
func (p *progress) Write(b []byte) (int, error) {
	if !p.begun {
		p.begin()
	}
	_ = p.control.SetWriteDeadline(time.Now().Add(p.idle))
	n, err := p.ResponseWriter.Write(b)
	if err != nil {
		return n, err
	}
	if err := p.control.Flush(); err != nil {
		return n, err
	}
	_ = p.control.SetWriteDeadline(time.Time{})
	return n, nil
}

// begin makes sure that there is a header.
func (p *progress) begin() {
	if p.begun {
		return
	}
	h := p.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "text/plain; charset=utf-8")
	}
	h.Set("X-Content-Type-Options", "nosniff")
	p.WriteHeader(http.StatusOK)
}

// WriteHeader sends the header.
func (p *progress) WriteHeader(code int) {
	p.begun = true
	p.ResponseWriter.WriteHeader(code)
}

// Unwrap is for http.ResponseController.
func (p *progress) Unwrap() http.ResponseWriter { return p.ResponseWriter }
