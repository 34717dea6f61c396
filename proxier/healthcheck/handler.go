package healthcheck

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// DefaultStaleAfter is how long a change may wait for a proxy that counts as
// healthy: twice kube-proxy's default syncPeriod
// (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/).
const DefaultStaleAfter = 60 * time.Second

// Config configures a Server. Status is required.
type Config struct {
	// Status tells the present status of the proxy; (*proxier.Proxier).Status fits.
	Status func() proxier.Status
	// Families are the families that the proxy programs; empty means both.
	Families []proxier.Family
	// StaleAfter is how long a change may wait before the proxy counts as
	// unhealthy. 0 means DefaultStaleAfter.
	StaleAfter time.Duration
	// NodeEligible tells whether load balancers should use the node: false while it
	// is about to go. Nil means always.
	NodeEligible func() bool
	// Problems are what does not work for now without making the proxy unhealthy, by what
	// they are about. They stand in the answers. Nil means none.
	Problems func() map[string]string
	// BindHardFail makes Run fail if the address cannot be bound. Otherwise it is
	// tried again each five seconds.
	BindHardFail bool
	// Failed is told when the address cannot be bound at first. Nil is off.
	Failed func(error)
	// Answered is told of every answer: the path and the status code. Nil is off.
	Answered func(path string, code int)
	// Log gets what Run does. Nil discards it.
	Log *slog.Logger
}

func (c *Config) complete() error {
	if c.Status == nil {
		return errors.New("healthcheck: Config.Status is nil")
	}
	if c.StaleAfter < 0 {
		return fmt.Errorf("healthcheck: StaleAfter is %v: it must not be negative", c.StaleAfter)
	}
	if c.StaleAfter == 0 {
		c.StaleAfter = DefaultStaleAfter
	}
	if len(c.Families) == 0 {
		c.Families = []proxier.Family{proxier.IPv4, proxier.IPv6}
	}
	if c.NodeEligible == nil {
		c.NodeEligible = func() bool { return true }
	}
	if c.Problems == nil {
		c.Problems = func() map[string]string { return nil }
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	if c.Answered == nil {
		c.Answered = func(string, int) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// health is the body of an answer, field by field that of kube-proxy, and problems.
type health struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"` // of /healthz only
	Healthy      bool                    `json:"healthy"`
	Status       map[string]familyHealth `json:"status,omitempty"`
	Problems     map[string]string       `json:"problems,omitempty"`
}

type familyHealth struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// healthNow is the health at the time now. One loop programs all families, so they
// are equally healthy. Whoever is healthy is up to date, which says lastUpdated.
func (c *Config) healthNow(now time.Time) health {
	st := c.Status()
	h := health{
		LastUpdated: st.LastSuccess, CurrentTime: now, Healthy: !st.Stale(now, c.StaleAfter),
		Status: map[string]familyHealth{}, Problems: c.Problems(),
	}
	if h.Healthy {
		h.LastUpdated = now
	}
	for _, f := range c.Families {
		h.Status[f.String()] = familyHealth{LastUpdated: st.LastSuccess, Healthy: h.Healthy}
	}
	return h
}

// newHandler serves /healthz and /livez.
func newHandler(cfg Config) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		h := cfg.healthNow(time.Now())
		cfg.Answered("/livez", answer(w, h, h.Healthy))
	})
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		h := cfg.healthNow(time.Now())
		h.NodeEligible = new(cfg.NodeEligible())
		cfg.Answered("/healthz", answer(w, h, h.Healthy && *h.NodeEligible))
	})
	return mux
}

// answer returns the status code that it wrote.
func answer(w http.ResponseWriter, h health, ok bool) int {
	code := http.StatusOK
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !ok {
		code = http.StatusServiceUnavailable
	}
	w.WriteHeader(code)
	// Nothing in health can fail to encode, and a client that left needs no answer.
	body, _ := json.Marshal(h)
	_, _ = w.Write(body)
	return code
}
