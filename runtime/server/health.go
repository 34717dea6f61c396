package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Check is one thing that is healthy or not.
type Check struct {
	// Name is the last part of its path below /healthz.
	Name string
	// Fault returns why it is not healthy, nil if it is. It must not block.
	Fault func() error
}

// Healthz serves /healthz: "ok", or 500 and what is wrong. With ?verbose it lists every
// check; /healthz/NAME asks one. It serves GET and HEAD only.
func Healthz(checks []Check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		report(w, checks, r.URL.Query().Has("verbose"))
	})
	for _, c := range checks {
		mux.HandleFunc("GET /healthz/"+c.Name, func(w http.ResponseWriter, _ *http.Request) {
			report(w, []Check{c}, false)
		})
	}
	return mux
}

// serverChecks are those of any server, and of nothing but it: ping says that it answers, log
// that what it has to say can be written somewhere, which slog never refuses.
func serverChecks() []Check {
	fine := func() error { return nil }
	return []Check{{Name: "ping", Fault: fine}, {Name: "log", Fault: fine}}
}

// checks are those of the server, and what Config.Health has beside them.
func (s *Server) checks() []Check {
	all := serverChecks()
	for _, c := range s.cfg.Health {
		if c.Name != "ping" && c.Name != "log" {
			all = append(all, c)
		}
	}
	return all
}

// report writes the result of some checks.
func report(w http.ResponseWriter, checks []Check, verbose bool) {
	var b strings.Builder
	healthy := true
	for _, c := range checks {
		err := c.Fault()
		switch {
		case err != nil:
			healthy = false
			fmt.Fprintf(&b, "[-]%s failed: %v\n", c.Name, err)
		case verbose:
			fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case !healthy:
		w.WriteHeader(http.StatusInternalServerError)
		b.WriteString("healthz check failed\n")
	case verbose:
		b.WriteString("healthz check passed\n")
	default:
		b.WriteString("ok")
	}
	_, _ = io.WriteString(w, b.String()) // who asked may have gone
}
