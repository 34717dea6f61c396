package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// bindRetry is the wait between two attempts to bind, as kube-proxy's, and
// ioTimeout bounds how long one client may take for a request.
const (
	bindRetry = 5 * time.Second
	ioTimeout = 10 * time.Second
)

// Server answers at one address.
type Server struct {
	addr string
	cfg  Config
}

// New returns a Server for the address "host:port". It binds nothing before Run.
func New(addr string, cfg Config) (*Server, error) {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, fmt.Errorf("healthcheck: address %q: %w", addr, err)
	}
	if err := cfg.complete(); err != nil {
		return nil, err
	}
	return &Server{addr: addr, cfg: cfg}, nil
}

// Handler returns what the Server serves, for whoever has a server of their own.
func (s *Server) Handler() http.Handler { return newHandler(s.cfg) }

// Run serves until ctx ends, and then returns nil.
func (s *Server) Run(ctx context.Context) error {
	l, err := s.listen(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		return nil
	}
	s.cfg.Log.Info("serving health", "address", l.Addr().String())
	return serve(ctx, l, s.Handler())
}

// listen returns nil without an error when ctx ends before the address is free.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	for first := true; ; first = false {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.addr)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if first {
			s.cfg.Failed(err)
		}
		if s.cfg.BindHardFail {
			return nil, fmt.Errorf("serve health: %w", err)
		}
		s.cfg.Log.Warn("cannot serve health", "err", err, "retry", bindRetry)
		t := time.NewTimer(bindRetry)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, nil
		case <-t.C:
		}
	}
}

func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	srv := &http.Server{Handler: h, ReadTimeout: ioTimeout, WriteTimeout: ioTimeout, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve health: %w", err)
	case <-ctx.Done():
	}
	// Answers take no time: nothing is worth waiting for.
	closed := srv.Close()
	if err := <-done; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve health: %w", err)
	}
	return closed
}
