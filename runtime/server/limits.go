package server

import (
	"fmt"
	"time"
)

// The defaults of Limits.
const (
	// DefaultConnections leaves room for a thousand streams and for those who look at the
	// node, well below the number of files a service may have open.
	DefaultConnections = 4096
	// DefaultHeader and DefaultRequest are far more than a client needs that means it.
	DefaultHeader  = 30 * time.Second
	DefaultRequest = 2 * time.Minute
	// DefaultKeepAlive and DefaultStreamIdle are those of the kubelet.
	DefaultKeepAlive  = 90 * time.Second
	DefaultStreamIdle = 4 * time.Hour
	// DefaultBody is far more than any request here has to say.
	DefaultBody = 1 << 20
)

// maxHeader is how many bytes the header of a request may have, as in the kubelet.
const maxHeader = 1 << 20

// Limits bound what clients may use up. Zero means the default.
type Limits struct {
	// Connections is how many there may be at once; half of them at most are of one
	// address. More are closed at once.
	Connections int
	// Header is how long a client may take for TLS and the header of a request.
	Header time.Duration
	// Request is how long a request may take that is neither a stream nor a log.
	Request time.Duration
	// KeepAlive is how long a connection stays open without a request.
	KeepAlive time.Duration
	// StreamIdle is how long a stream stays open on which nothing moves, and how long a
	// client may not take what it is sent of a log: streamingConnectionIdleTimeout.
	StreamIdle time.Duration
	// Body is how many bytes the body of a request may have.
	Body int64
}

func (l Limits) withDefaults() (Limits, error) {
	if l.Connections < 0 || l.Body < 0 {
		return l, fmt.Errorf("Config.Limits: Connections is %d, Body is %d, want numbers above zero", l.Connections, l.Body)
	}
	for _, d := range []struct {
		name   string
		value  *time.Duration
		preset time.Duration
	}{
		{"Header", &l.Header, DefaultHeader},
		{"Request", &l.Request, DefaultRequest},
		{"KeepAlive", &l.KeepAlive, DefaultKeepAlive},
		{"StreamIdle", &l.StreamIdle, DefaultStreamIdle},
	} {
		if *d.value < 0 {
			return l, fmt.Errorf("Config.Limits.%s is %s, want a time above zero", d.name, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.preset
		}
	}
	if l.Connections == 0 {
		l.Connections = DefaultConnections
	}
	if l.Body == 0 {
		l.Body = DefaultBody
	}
	return l, nil
}
