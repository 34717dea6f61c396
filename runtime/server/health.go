package server

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Check is one thing that is healthy or not.
type Check struct {
	// Name is the last part of its path below /healthz: letters, digits, "-", "_" and ".".
	// No two checks have the same.
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
	mux.HandleFunc("GET /healthz/{name}", func(w http.ResponseWriter, r *http.Request) {
		i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == r.PathValue("name") })
		if i < 0 {
			http.NotFound(w, r)
			return
		}
		report(w, checks[i:i+1], false)
	})
	return mux
}

// validChecks returns what is wrong with checks, nil if nothing is.
func validChecks(checks []Check) error {
	for i, c := range checks {
		switch {
		case c.Name == "" || c.Fault == nil:
			return errors.New("a check without name or Fault")
		case strings.ContainsFunc(c.Name, isNoNamePart):
			return fmt.Errorf("a check named %q, want letters, digits, \"-\", \"_\" and \".\" only", c.Name)
		case slices.ContainsFunc(checks[:i], func(other Check) bool { return other.Name == c.Name }):
			return fmt.Errorf("two checks named %q", c.Name)
		}
	}
	return nil
}

func isNoNamePart(r rune) bool {
	isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	isDigit := '0' <= r && r <= '9'
	return !isLetter && !isDigit && !strings.ContainsRune("-_.", r)
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
