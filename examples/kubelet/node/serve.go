package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/nodekit-go/nodekit/runtime/server"
)

// The limits of the servers: answers are small and local.
const (
	headerTimeout = 5 * time.Second
	writeTimeout  = 30 * time.Second
	endTimeout    = 2 * time.Second
)

// serve opens the listeners and serves on them until ctx ends.
func (n *Node) serve(ctx context.Context, g *errgroup.Group) error {
	k := n.cfg.Kubelet
	socket, health, secure, open := filepath.Join(n.cfg.Root, socketFile), healthAddress(k), secureAddress(k), readOnlyAddress(k)
	gate, err := n.openGate()
	if err != nil {
		return err
	}
	api, err := n.newAPI(gate)
	if err != nil {
		return err
	}
	profileBlocking(k)
	var listeners []net.Listener
	var serve []func(context.Context, net.Listener) error
	for _, s := range []struct {
		what, network, address string
		serve                  func(context.Context, net.Listener) error
	}{
		{"the local API", "unix", socket, n.serving(n.localHandler())},
		{"healthz", "tcp", health, n.serving(server.Healthz(n.checks()))},
		{"the API", "tcp", secure, func(ctx context.Context, l net.Listener) error { return api.ServeTLS(ctx, l, gate.tls) }},
		{"readOnlyPort", "tcp", open, api.ServeReadOnly},
	} {
		if s.address == "" {
			continue
		}
		l, err := n.cfg.Listen(ctx, s.network, s.address)
		if err != nil {
			errs := []error{fmt.Errorf("serve %s: %w", s.what, err)}
			for _, l := range listeners {
				errs = append(errs, l.Close())
			}
			return errors.Join(errs...)
		}
		listeners, serve = append(listeners, l), append(serve, s.serve)
	}
	for i, l := range listeners {
		g.Go(func() error { return serve[i](ctx, l) })
	}
	g.Go(func() error { return gate.run(ctx) })
	n.log.Info("serving", "socket", socket, "healthz", health, "api", secure, "readOnly", open)
	return nil
}

// serving serves h on any listener.
func (n *Node) serving(h http.Handler) func(context.Context, net.Listener) error {
	return func(ctx context.Context, l net.Listener) error { return serveOn(ctx, l, h, n.log) }
}

// serveOn serves until ctx ends, and closes l.
func serveOn(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger) error {
	s := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      writeTimeout,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := s.Shutdown(last); err != nil {
		err = s.Close()
		log.Debug("connections were cut", "address", l.Addr().String(), "err", err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	}
	return nil
}

// checks are what /healthz looks at.
func (n *Node) checks() []server.Check {
	return []server.Check{
		{Name: "ping", Fault: func() error { return nil }},
		{Name: "runtime", Fault: func() error { return n.runtimeSeen.fault("container runtime", runtimeDownAfter) }},
		{Name: "source", Fault: func() error {
			if !n.catalog.read() {
				return errors.New("the manifests have not been read yet")
			}
			return nil
		}},
		{Name: "pods", Fault: func() error {
			if !n.catalog.settled() {
				return errUnsettled
			}
			return nil
		}},
		{Name: "syncloop", Fault: func() error {
			a := n.agent.get()
			if a == nil {
				return errors.New("the pod workers have not started yet")
			}
			if lag := a.pool.Lag(); lag > stuckAfter {
				return fmt.Errorf("the pod workers are %s behind", lag.Round(time.Second))
			}
			return nil
		}},
		{Name: "runtimeready", Fault: func() error {
			if a := n.agent.get(); a != nil {
				return a.told.ready.lasting("container runtime", runtimeDownAfter)
			}
			return nil
		}},
	}
}

// localHandler serves what is for root on this machine only.
func (n *Node) localHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pods", n.servePods)
	mux.Handle("GET /manifests", page(func() any { return n.manifests() }, n.writeManifests))
	mux.Handle("GET /probes", page(func() any { return n.probeRows() }, n.writeProbes))
	mux.Handle("GET /events", page(func() any { return n.events.Recent() }, n.writeEvents))
	mux.Handle("GET /node", page(func() any { return n.object() }, n.writeNode))
	mux.Handle("GET /metrics", n.api.metrics)
	mux.Handle("GET /metrics/", n.api.metrics)
	mux.Handle("GET /stats/summary", n.api.stats)
	mux.Handle("GET /healthz", server.Healthz(n.checks()))
	return mux
}

// page serves a table as text, or as JSON with ?output=json.
func page(rows func() any, write func(io.Writer)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch format := r.URL.Query().Get("output"); format {
		case "json":
			writeJSON(w, rows())
		case "", "text":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			write(w)
		default:
			http.Error(w, "unknown output "+strconv.Quote(format)+", want json or text", http.StatusBadRequest)
		}
	})
}

// errUnsettled is why there is no list of pods yet.
var errUnsettled = errors.New("the status of the pods is not known yet")

// servePods answers with the list of pods, or with 503 while it would not be true:
// who proxies for them has to keep what it knows meanwhile. The list has a tag, so
// that asking often costs nothing while nothing changes.
func (n *Node) servePods(w http.ResponseWriter, r *http.Request) {
	if !n.catalog.settled() {
		http.Error(w, errUnsettled.Error(), http.StatusServiceUnavailable)
		return
	}
	if r.Header.Get("If-None-Match") == n.tag(n.catalog.version()) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	list, revision := n.catalog.list()
	w.Header().Set("ETag", n.tag(revision))
	writeJSON(w, list)
}

// tag is the ETag of a revision of this process.
func (n *Node) tag(revision uint64) string { return fmt.Sprintf(`"%s-%d"`, n.id, revision) }

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data)
}
