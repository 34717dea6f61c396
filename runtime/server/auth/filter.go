package auth

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

// How long answers of the API server are kept unless it is said otherwise: the defaults of
// KubeletConfiguration v1beta1.
const (
	DefaultTokenTTL = 2 * time.Minute
	DefaultAllowTTL = 5 * time.Minute
	DefaultDenyTTL  = 30 * time.Second
)

// Mode says who decides about requests of those who are known.
type Mode uint8

const (
	// Webhook asks the API server.
	Webhook Mode = iota
	// AlwaysAllow allows everything to everybody who is known, to the anonymous user, too.
	AlwaysAllow
)

// String returns the name of a mode in a KubeletConfiguration.
func (m Mode) String() string {
	switch m {
	case Webhook:
		return "Webhook"
	case AlwaysAllow:
		return "AlwaysAllow"
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// Config configures a Filter. Node is required, and Access in mode Webhook. Without
// ClientCA, Tokens and Anonymous nobody is known, and every request is refused.
type Config struct {
	// Node is the name of the node.
	Node string
	// ClientCA returns the authorities of client certificates at this moment; nil: such
	// certificates say nothing.
	ClientCA func() *x509.CertPool
	// Tokens is asked about bearer tokens; nil: tokens say nothing.
	Tokens TokenReviews
	// TokenTTL is how long its answers are kept; 0: DefaultTokenTTL, negative: not at all.
	TokenTTL time.Duration
	// Anonymous lets requests without credentials be those of the user Anonymous.
	Anonymous bool
	// Mode says who decides; its zero value is Webhook.
	Mode Mode
	// Access is asked in mode Webhook.
	Access AccessReviews
	// AllowTTL and DenyTTL are how long its answers are kept; 0: DefaultAllowTTL and
	// DefaultDenyTTL, negative: not at all.
	AllowTTL, DenyTTL time.Duration
	// Log gets what was refused, and what went wrong; nil discards.
	Log *slog.Logger
}

func (c *Config) validate() error {
	switch {
	case c.Node == "":
		return errors.New("auth: Config.Node is empty, want the name of the node")
	case c.Mode != Webhook && c.Mode != AlwaysAllow:
		return fmt.Errorf("auth: Config.Mode is %s, want Webhook or AlwaysAllow", c.Mode)
	case c.Mode == Webhook && c.Access == nil:
		return errors.New("auth: Config.Access is nil, want whom to ask in mode Webhook")
	}
	for _, d := range []struct {
		ttl     *time.Duration
		initial time.Duration
	}{{&c.TokenTTL, DefaultTokenTTL}, {&c.AllowTTL, DefaultAllowTTL}, {&c.DenyTTL, DefaultDenyTTL}} {
		if *d.ttl == 0 {
			*d.ttl = d.initial
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Filter decides about requests to the API of a node.
type Filter struct {
	cfg    Config
	tokens *tokens // nil: tokens say nothing
	access *access // nil: everything is allowed
}

// New returns a Filter. It asks nobody yet.
func New(cfg Config) (*Filter, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	f := &Filter{cfg: cfg}
	if cfg.Tokens != nil {
		f.tokens = newTokens(cfg.Tokens, cfg.TokenTTL)
	}
	if cfg.Mode == Webhook {
		f.access = newAccess(cfg.Access, cfg.AllowTTL, cfg.DenyTTL)
	}
	return f, nil
}

// Protect returns a handler that passes on to next what is allowed, without the
// credentials and with the [User] in the request's context. Everybody who is not known
// gets 401, who is known and may not gets 403, and 500 says that nobody could tell.
func (f *Filter) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, known, err := f.authenticate(r)
		if err != nil {
			f.cfg.Log.Log(r.Context(), level(err), "request is refused: who sent it is not known", "remote", r.RemoteAddr, "path", r.URL.Path, "err", err)
		}
		if err != nil || !known {
			refuse(w, http.StatusUnauthorized, "Unauthorized")
			return
		}
		if !f.authorize(w, r, u) {
			return
		}
		passed := r.WithContext(withUser(r.Context(), u))
		passed.Header = withoutCredentials(r.Header)
		next.ServeHTTP(w, passed)
	})
}

// level returns how loudly an error is told: strangers must not fill the log with their
// attempts, but the operator wants to know of an API server that cannot be asked.
func level(err error) slog.Level {
	if errors.Is(err, errUnanswered) {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// authenticate returns who sent a request; false if it has no credentials that count. One
// kind of credentials is enough, and with none that is good the error says what is wrong
// with them: bad credentials make nobody the anonymous user.
func (f *Filter) authenticate(r *http.Request) (User, bool, error) {
	u, ok, certErr := f.fromCertificate(r)
	if ok {
		return u.authenticated(), true, nil
	}
	u, ok, tokenErr := f.fromToken(r)
	if ok {
		return u.authenticated(), true, nil
	}
	if err := errors.Join(certErr, tokenErr); err != nil || !f.cfg.Anonymous {
		return User{}, false, err
	}
	return anonymous(), true, nil
}

// fromToken returns who the token of a request belongs to; false if there is none.
func (f *Filter) fromToken(r *http.Request) (User, bool, error) {
	if f.tokens == nil {
		return User{}, false, nil
	}
	token, err := bearerToken(r)
	if err != nil || token == "" {
		return User{}, false, err
	}
	u, err := f.tokens.user(r.Context(), token)
	return u, err == nil, err
}

// authorize reports whether a user may have what was asked for; if not, it has answered.
func (f *Filter) authorize(w http.ResponseWriter, r *http.Request, u User) bool {
	if f.access == nil {
		return true
	}
	verb, subresources := verb(r.Method), Subresources(r.URL.Path)
	log := f.cfg.Log.With("user", u.Name, "verb", verb, "resource", resource)
	for _, sub := range subresources {
		allowed, err := f.access.allowed(r.Context(), f.question(u, verb, sub))
		if err != nil {
			log.Error("request is refused: whether it is allowed is not known", "subresource", sub, "err", err)
			refuse(w, http.StatusInternalServerError, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=%s, subresource=%s)", u.Name, verb, resource, sub))
			return false
		}
		if allowed {
			return true
		}
	}
	log.Info("request is refused: it is not allowed", "subresources", subresources)
	refuse(w, http.StatusForbidden, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=%s, subresource(s)=%v)\n", u.Name, verb, resource, subresources))
	return false
}

// refuse answers with the words of the kubelet, which clients may look for.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff") // a name of a user is part of it
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}
