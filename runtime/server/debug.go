package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Debug has what the configuration of a node can switch off. What is empty is switched off.
type Debug struct {
	// Disabled switches everything off that does something with containers, and the lists
	// that only administrators may see: enableDebuggingHandlers false.
	Disabled bool
	// HostLogs is the folder whose files /logs shows, usually /var/log.
	HostLogs string
	// Journal answers queries of the logs of services (/logs/?query=), together with the files
	// of HostLogs, in which services have their logs that it does not have: Journalctl. Nil
	// switches queries off: enableSystemLogQuery false.
	Journal Journal
	// Profiling has /debug/pprof, as in net/http/pprof.
	Profiling http.Handler
	// SetVerbosity is given what is put at /debug/flags/v: how much is to be logged.
	SetVerbosity func(level string) error
}

// maxLevel is how many bytes of a level are read.
const maxLevel = 64

// addDebug adds what helps to find out what is wrong with a node.
func (s *Server) addDebug(mux *routeMux) {
	d := &s.cfg.Debug
	if d.HostLogs == "" {
		mux.Handle("/logs/", disabled("logs endpoint is disabled."))
	} else {
		mux.Handle("GET /logs/", hostLogs{root: d.HostLogs, journal: d.Journal, idle: s.limits.StreamIdle})
	}
	if d.Profiling == nil {
		mux.Handle("/debug/pprof/", disabled("profiling endpoint is disabled."))
	} else {
		mux.HandleFunc("GET /debug/pprof/", func(w http.ResponseWriter, r *http.Request) {
			endless(w)
			d.Profiling.ServeHTTP(w, r)
		})
	}
	if d.SetVerbosity == nil {
		mux.Handle("/debug/flags/v", disabled("flags endpoint is disabled."))
	} else {
		mux.HandleFunc("PUT /debug/flags/v", s.serveVerbosity)
	}
}

// serveVerbosity sets how much is logged.
func (s *Server) serveVerbosity(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxLevel))
	if err != nil {
		fail(w, http.StatusBadRequest, "read the level: "+err.Error())
		return
	}
	level := strings.TrimSpace(string(body))
	if err := s.cfg.Debug.SetVerbosity(level); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	s.log.Info("verbosity of the log was set", "level", level)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	fmt.Fprintf(w, "successfully set verbosity to %s", level)
}
