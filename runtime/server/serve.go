package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// endTime is how long requests may take that are there when a server ends.
const endTime = 2 * time.Second

// ServeTLS serves Handler on l until ctx ends, and closes l. It returns nil then, after all
// requests and streams have ended. TLS is c's, as who it trusts and which certificate it
// shows; without MinVersion it is 1.2. HTTP/2 is spoken if c.NextProtos has h2, for all but
// exec, attach and port-forward, whose clients ask for a connection of their own.
func (s *Server) ServeTLS(ctx context.Context, l net.Listener, c *tls.Config) error {
	if c == nil {
		return errors.Join(errors.New("server: no TLS configuration, want one with a certificate"), l.Close())
	}
	c = c.Clone()
	if c.MinVersion == 0 {
		c.MinVersion = tls.VersionTLS12
	}
	return s.serve(ctx, tls.NewListener(newBounded(l, s.limits.Connections, s.log), c), s.protected, c)
}

// ServeReadOnly serves ReadOnly on l without TLS until ctx ends, and closes l.
func (s *Server) ServeReadOnly(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, newBounded(l, s.limits.Connections, s.log), s.readOnly, nil)
}

// serve serves h on l until ctx ends. What l does for TLS is c, nil without.
func (s *Server) serve(ctx context.Context, l net.Listener, h http.Handler, c *tls.Config) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// serving is read-locked by each request, also by those whose connection has been taken
	// over, which net/http does not wait for.
	var serving sync.RWMutex
	server := s.newHTTP(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.RLock()
		defer serving.RUnlock()
		h.ServeHTTP(w, r)
	}), c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	var failed error
	select {
	case failed = <-ended:
		cancel() // ends the streams
	case <-ctx.Done():
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer stop()
		if err := server.Shutdown(last); err == nil {
			break
		}
		s.log.Debug("connections were cut", "address", l.Addr().String())
	}
	if err := server.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		s.log.Debug("close listener", "address", l.Addr().String(), "err", err)
	}
	if failed == nil {
		failed = <-ended
	}
	serving.Lock()
	defer serving.Unlock()
	if errors.Is(failed, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve on %s: %w", l.Addr(), failed)
}

// newHTTP returns the server behind one listener.
func (s *Server) newHTTP(ctx context.Context, h http.Handler, c *tls.Config) *http.Server {
	spoken := new(http.Protocols)
	spoken.SetHTTP1(true)
	spoken.SetHTTP2(c != nil && slices.Contains(c.NextProtos, "h2"))
	return &http.Server{
		Handler:           h,
		Protocols:         spoken,
		TLSConfig:         c,
		ReadHeaderTimeout: s.limits.Header,
		ReadTimeout:       s.limits.Request,
		WriteTimeout:      s.limits.Request,
		IdleTimeout:       s.limits.KeepAlive,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
}
