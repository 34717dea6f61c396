package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// bindRetry is the wait between two attempts to bind, as kube-proxy's.
const bindRetry = 5 * time.Second

// server serves what kube-proxy has on its metrics port.
type server struct {
	cfg     *Config
	handler http.Handler
	// failed is told why the port cannot be bound.
	failed func(error)
}

func newServer(cfg *Config, m *metrics, failed func(error)) *server {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	mux.Handle("/metrics/slis", promhttp.HandlerFor(m.slis.registry, promhttp.HandlerOpts{}))
	text := func(path, body string, asked func()) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			asked()
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			_, _ = io.WriteString(w, body)
		})
	}
	text("/healthz", "ok", func() { m.slis.observe("ping", "healthz", true) })
	text("/proxyMode", string(modeOf(cfg.Proxy)), func() {})
	mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kubeproxy.config.k8s.io": cfg.Proxy.KubeProxyConfiguration})
	})
	if cfg.Proxy.EnableProfiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return &server{cfg: cfg, handler: mux, failed: failed}
}

// Run serves until ctx ends, and then returns nil.
func (s *server) Run(ctx context.Context) error {
	l, err := s.listen(ctx)
	if err != nil || l == nil {
		return err
	}
	srv := &http.Server{Handler: s.handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve metrics: %w", err)
	case <-ctx.Done():
	}
	err = srv.Close()
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", served)
	}
	return err
}

// listen returns nil without an error when ctx ends before the address is free.
func (s *server) listen(ctx context.Context) (net.Listener, error) {
	for first := true; ; first = false {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.cfg.Proxy.MetricsBindAddress)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if first {
			s.failed(err)
		}
		if s.cfg.Proxy.BindAddressHardFail {
			return nil, fmt.Errorf("serve metrics: %w", err)
		}
		s.cfg.Log.Warn("cannot serve metrics", "err", err, "retry", bindRetry)
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(bindRetry):
		}
	}
}
