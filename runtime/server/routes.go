package server

import "net/http"

// routes is the whole API.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
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
	return mux
}

// readOnlyRoutes is what everybody may see.
func (s *Server) readOnlyRoutes() http.Handler {
	mux := http.NewServeMux()
	s.addOpen(mux)
	addDisabled(mux)
	return mux
}

// addOpen adds what is served on both ports.
func (s *Server) addOpen(mux *http.ServeMux) {
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
func (s *Server) addPods(mux *http.ServeMux) {
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
func (s *Server) addContainers(mux *http.ServeMux) {
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
func addDisabled(mux *http.ServeMux) {
	off := disabled("Debug endpoints are disabled.")
	for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/", "/debug/pprof/", "/logs/"} {
		mux.Handle(path, off)
	}
}

// serveConfigz shows the configuration that the agent runs with.
func (s *Server) serveConfigz(w http.ResponseWriter, _ *http.Request) {
	sendJSON(w, map[string]any{"kubeletconfig": s.cfg.Pages.Configuration()})
}
