package server

import (
	"fmt"
	"log/slog"
	"net/http"
	"sync"
)

// Config configures a Server. The zero value serves /healthz, and that to nobody.
type Config struct {
	// Protect wraps everything that Handler serves, so that who has no right to it does not
	// even learn which paths there are. Nil: every request is answered with 401, so that a
	// server that somebody forgot to protect gives nothing away. Open protects nothing.
	Protect func(http.Handler) http.Handler
	// Pods are the pods of the node; nil: there are none.
	Pods Pods
	// Containers does what is asked of containers.
	Containers Containers
	// Health is what /healthz looks at beside the server itself, whose own checks are ping
	// and log.
	Health []Check
	// Pages are what others have to show.
	Pages Pages
	// Debug has what the configuration of a node can switch off.
	Debug Debug
	// Limits bound what clients may use up.
	Limits Limits
	// Requests is told of each request when it comes; what it returns is called at the
	// request's end, unless it is nil. Nil: nobody is told.
	Requests func(Request) (ended func())
	// Log is told of what went wrong with a request that cannot be told of it any more. Nil
	// discards.
	Log *slog.Logger
}

// Containers does what is asked of containers. CRI.Containers has all of it. What is nil is
// answered with 501.
type Containers struct {
	Logs        Logs
	Streams     Streams
	Commands    Commands
	Checkpoints Checkpoints
	// Running tells of pods that run, whoever wanted them.
	Running RunningPods
}

// Pages are what others have to show. What is nil is answered with 404.
type Pages struct {
	// Stats has /stats and what is below it, Metrics has /metrics and what is below it.
	Stats, Metrics http.Handler
	// Configuration returns what /configz shows as kubeletconfig: an object with its kind
	// and version.
	Configuration func() any
	// Flags returns what /flagz shows: the flags of the command line and their values, without
	// those that are secret.
	Flags func() map[string]string
	// Status is what /statusz shows.
	Status *Status
}

// Open is a Config.Protect that lets everybody do everything.
func Open(h http.Handler) http.Handler { return h }

// Server is the API of a node.
type Server struct {
	cfg    Config
	limits Limits
	log    *slog.Logger
	// protected and readOnly are made once.
	protected, readOnly http.Handler
	// served are the routes of protected.
	served []Route
	// frames are buffers for messages of WebSockets, which only those that send need.
	frames sync.Pool
}

// New returns a Server. It does nothing yet.
func New(cfg Config) (*Server, error) {
	limits, err := cfg.Limits.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("server: %w", err)
	}
	if err := validChecks(cfg.Health); err != nil {
		return nil, fmt.Errorf("server: Config.Health has %w", err)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	protect := cfg.Protect
	if protect == nil {
		protect = closed
	}
	s := &Server{cfg: cfg, limits: limits, log: cfg.Log}
	all := s.routes()
	s.served = all.routes
	s.protected = s.outer("readwrite", protect(all))
	s.readOnly = s.outer("readonly", s.readOnlyRoutes())
	return s, nil
}

// Handler serves the whole API, protected, for a listener with TLS.
func (s *Server) Handler() http.Handler { return s.protected }

// ReadOnly serves to everybody what tells nothing of secrets and changes nothing: /healthz,
// /pods, /stats and /metrics.
func (s *Server) ReadOnly() http.Handler { return s.readOnly }

// outer is what every request goes through before anything else.
func (s *Server) outer(kind string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.cfg.Requests != nil {
			if ended := s.cfg.Requests(newRequest(kind, r)); ended != nil {
				defer ended()
			}
		}
		if !plainPath(r.URL) {
			fail(w, http.StatusBadRequest, "the path is not a plain one")
			return
		}
		if r.ContentLength > s.limits.Body {
			w.Header().Set("Connection", "close")
			fail(w, http.StatusRequestEntityTooLarge, "the body of the request is too large")
			return
		}
		if r.Body != nil {
			r.Body = http.MaxBytesReader(w, r.Body, s.limits.Body)
		}
		next.ServeHTTP(w, r)
	})
}

// closed is what protects a server that nobody protects.
func closed(http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusUnauthorized, "Unauthorized")
	})
}
