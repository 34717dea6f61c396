package server

import (
	"net/http"
	"slices"
	"strings"
)

// Route is something that a Server answers.
type Route struct {
	// Method is what is asked with; empty: any method.
	Method string
	// Path may have parts of any value, as {pod}, and stands for all that is below it if it
	// ends with a slash.
	Path string
}

// Routes returns what Handler serves, in no order, for tests that go through all of it.
func (s *Server) Routes() []Route { return slices.Clone(s.served) }

// routeMux is a ServeMux that knows what it serves.
type routeMux struct {
	*http.ServeMux
	routes []Route
}

func newRouteMux() *routeMux { return &routeMux{ServeMux: http.NewServeMux()} }

// Handle adds a handler for a pattern of net/http.
func (m *routeMux) Handle(pattern string, h http.Handler) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	m.routes = append(m.routes, Route{Method: method, Path: strings.TrimSuffix(path, "{$}")})
	m.ServeMux.Handle(pattern, h)
}

// HandleFunc is Handle for a function.
func (m *routeMux) HandleFunc(pattern string, h func(http.ResponseWriter, *http.Request)) {
	m.Handle(pattern, http.HandlerFunc(h))
}

// routes is the whole API.
func (s *Server) routes() *routeMux {
	mux := newRouteMux()
	s.addOpen(mux)
	if s.cfg.Debug.Disabled {
		addDisabled(mux)
		return mux
	}
	s.addPods(mux)
	s.addContainers(mux)
	s.addDebug(mux)
	if s.cfg.Pages.Configuration != nil {
		mux.HandleFunc("GET /configz", s.serveConfigz)
	}
	s.addZpages(mux)
	return mux
}

// readOnlyRoutes is what everybody may see.
func (s *Server) readOnlyRoutes() http.Handler {
	mux := newRouteMux()
	s.addOpen(mux)
	addDisabled(mux)
	return mux
}

// addOpen adds what is served on both ports.
func (s *Server) addOpen(mux *routeMux) {
	health := Healthz(s.checks())
	mux.Handle("/healthz", health)
	mux.Handle("/healthz/", health)
	mux.HandleFunc("GET /pods", s.servePods)
	mux.HandleFunc("GET /pods/{$}", s.servePods)
	if h := s.cfg.Pages.Stats; h != nil {
		for _, pattern := range []string{"GET /stats", "GET /stats/", "POST /stats", "POST /stats/"} {
			mux.Handle(pattern, h)
		}
	}
	if h := s.cfg.Pages.Metrics; h != nil {
		mux.Handle("GET /metrics", h)
		mux.Handle("GET /metrics/", h)
	}
}

// addPods adds the lists that only those see who may see all of the node.
func (s *Server) addPods(mux *routeMux) {
	mux.HandleFunc("GET /runningpods", s.serveRunning)
	mux.HandleFunc("GET /runningpods/{$}", s.serveRunning)
	if _, ok := s.cfg.Pods.(AllocatedPods); !ok {
		return
	}
	mux.HandleFunc("GET /allocatedPods", s.serveAllocated)
	mux.HandleFunc("GET /allocatedPods/{$}", s.serveAllocated)
	mux.HandleFunc("GET /allocatedPods/{namespace}/{pod}", s.serveAllocatedPod)
	mux.HandleFunc("GET /allocatedPods/{namespace}/{pod}/{uid}", s.serveAllocatedPod)
}

// addContainers adds what is done with containers.
func (s *Server) addContainers(mux *routeMux) {
	const (
		container = "/{namespace}/{pod}/{container}"
		instance  = "/{namespace}/{pod}/{uid}/{container}"
	)
	mux.HandleFunc("GET /containerLogs"+container, s.serveLogs)
	mux.HandleFunc("POST /checkpoint"+container, s.serveCheckpoint)
	for _, path := range []string{container, instance} {
		mux.HandleFunc("POST /run"+path, s.serveRun)
		for _, method := range []string{"GET ", "POST "} {
			mux.HandleFunc(method+"/exec"+path, s.serveExec)
			mux.HandleFunc(method+"/attach"+path, s.serveAttach)
		}
	}
	for _, path := range []string{"/{namespace}/{pod}", "/{namespace}/{pod}/{uid}"} {
		mux.HandleFunc("GET /portForward"+path, s.servePortForward)
		mux.HandleFunc("POST /portForward"+path, s.servePortForward)
	}
}

// addDisabled tells those who come for what is not served that it is switched off.
func addDisabled(mux *routeMux) {
	off := disabled("Debug endpoints are disabled.")
	for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/", "/debug/pprof/", "/logs/"} {
		mux.Handle(path, off)
	}
}

// serveConfigz shows the configuration that the agent runs with.
func (s *Server) serveConfigz(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, map[string]any{"kubeletconfig": s.cfg.Pages.Configuration()})
}
