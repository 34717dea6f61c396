package tokens

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// defaultTimeout bounds a request to the server: a pod that starts waits for it.
	defaultTimeout = 10 * time.Second
	// retryPause is the time after a renewal that failed in which the token of before is
	// served without another attempt.
	retryPause = 10 * time.Second
	// sweepPause is the least time between two searches for tokens that have expired,
	// the kubelet's interval.
	sweepPause = time.Minute
)

// Client creates tokens for the service accounts of one namespace. The
// ServiceAccountInterface of client-go is one. Its method has to return when its ctx
// ends.
type Client interface {
	CreateToken(ctx context.Context, serviceAccount string, request *authenticationv1.TokenRequest, opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error)
}

// Config adjusts a Cache. The zero value is ready for use.
type Config struct {
	// Timeout bounds each request to the server; 0: ten seconds.
	Timeout time.Duration
	// Failed is told of each renewal that failed while a token of before is still valid,
	// which is what the caller gets then. It is called by the goroutine that asked and
	// must not block. nil: nobody is told.
	Failed func(Failure)
	// Log gets the same; nil discards.
	Log *slog.Logger
}

// Failure is a renewal that failed.
type Failure struct {
	Request Request
	// Err is what the server answered, or why it did not.
	Err error
	// Valid is for how long the token of before can still be used.
	Valid time.Duration
}

// Cache keeps tokens. Make one with New.
type Cache struct {
	clients func(namespace string) Client
	cfg     Config
	log     *slog.Logger

	mu      sync.Mutex // guards the fields below, and those of entries
	entries map[key]*entry
	swept   time.Time
}

// entry is a token, or one that is being requested.
type entry struct {
	token  Token     // the zero value: there is none yet
	retry  time.Time // after a renewal that failed: no other one before
	flight *flight   // nil: nobody asks the server
}

// handedOut is the token as a caller gets it: one whose renewal is due, and is not to be
// tried now, is to be asked for again after the pause.
func (e *entry) handedOut(now time.Time) Token {
	token := e.token
	if token.due(now) {
		token.Refresh = now.Add(retryPause)
		if now.Before(e.retry) {
			token.Refresh = e.retry
		}
	}
	return token
}

// flight is a request that is out.
type flight struct {
	done  chan struct{} // closed after the fields below are set
	token Token
	err   error
	// given up is a request that ended because its caller went away.
	givenUp bool
}

// New returns an empty Cache. clients returns the Client for a namespace; with
// client-go that is clientset.CoreV1().ServiceAccounts.
func New(clients func(namespace string) Client, cfg Config) (*Cache, error) {
	switch {
	case clients == nil:
		return nil, errors.New("tokens: no clients, want a function that returns the Client for a namespace")
	case cfg.Timeout < 0:
		return nil, fmt.Errorf("tokens: Config.Timeout is %s, want 0 (ten seconds) or more", cfg.Timeout)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = defaultTimeout
	}
	if cfg.Failed == nil {
		cfg.Failed = func(Failure) {}
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Cache{clients: clients, cfg: cfg, log: log, entries: map[key]*entry{}}, nil
}

// Get returns a token that is valid now, from memory or from the server. It waits for
// the server only when there is no valid token or when this call is the one that renews
// it; never longer than Config.Timeout for one request. An error means that there is no
// valid token; ErrAudience that the pod may not have one for this audience.
func (c *Cache) Get(ctx context.Context, r Request) (Token, error) {
	k, err := r.key()
	if err != nil {
		return Token{}, err
	}
	for {
		token, f, mine := c.look(k)
		switch {
		case f == nil:
			return token, nil
		case mine:
			return c.ask(ctx, r, k, f)
		}
		select {
		case <-f.done:
			if !f.givenUp {
				return f.token, f.err
			}
		case <-ctx.Done():
			return Token{}, fmt.Errorf("request %s: %w", k, ctx.Err())
		}
	}
}

// Token returns the token that a projected volume of a pod asks for, and when it has to
// be asked for again.
func (c *Cache) Token(ctx context.Context, pod *corev1.Pod, source *corev1.ServiceAccountTokenProjection) ([]byte, time.Time, error) {
	r := Request{Pod: pod, Audience: source.Audience}
	if s := source.ExpirationSeconds; s != nil {
		r.Lifetime = time.Duration(*s) * time.Second
	}
	token, err := c.Get(ctx, r)
	if err != nil {
		return nil, time.Time{}, err
	}
	return []byte(token.Value()), token.Refresh, nil
}

// ForDriver returns the token that a CSI driver asks for, for a pod that has a volume of
// the driver, as the driver is handed it, and when it has to be asked for again.
func (c *Cache) ForDriver(ctx context.Context, pod *corev1.Pod, driver string, want storagev1.TokenRequest) (authenticationv1.TokenRequestStatus, time.Time, error) {
	r := Request{Pod: pod, Audience: want.Audience, Driver: driver}
	if s := want.ExpirationSeconds; s != nil {
		r.Lifetime = time.Duration(*s) * time.Second
	}
	token, err := c.Get(ctx, r)
	if err != nil {
		return authenticationv1.TokenRequestStatus{}, time.Time{}, err
	}
	return authenticationv1.TokenRequestStatus{Token: token.Value(), ExpirationTimestamp: metav1.NewTime(token.Expires)}, token.Refresh, nil
}

// Forget drops the tokens of a pod that is gone. One that is being requested is handed
// to who asked and not kept.
func (c *Cache) Forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.entries, func(k key, _ *entry) bool { return k.pod == uid })
}

// look returns a token to use, or else the request to wait for; mine says that the
// caller has to make it.
func (c *Cache) look(k key) (token Token, f *flight, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e == nil {
		e = &entry{}
		c.entries[k] = e
	}
	now := time.Now()
	valid := e.token.valid(now)
	switch {
	case valid && (!e.token.due(now) || e.flight != nil || now.Before(e.retry)):
		return e.handedOut(now), nil, false
	case e.flight != nil:
		return Token{}, e.flight, false
	}
	e.flight = &flight{done: make(chan struct{})}
	return Token{}, e.flight, true
}

// ask makes a request and hands its outcome to those who wait for it.
func (c *Cache) ask(ctx context.Context, r Request, k key, f *flight) (Token, error) {
	answered := false
	defer func() {
		if !answered { // a client that panics leaves nobody waiting
			c.settle(k, f, Token{}, errors.New("the client gave no answer"))
		}
	}()
	bounded, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	answer, err := c.clients(k.namespace).CreateToken(bounded, k.account, k.request(), metav1.CreateOptions{})
	var token Token
	if err == nil {
		token, err = newToken(answer, k.lifetime, time.Now())
	}
	answered = true
	if err != nil {
		err = fmt.Errorf("request %s: %w", k, err)
	}
	f.givenUp = err != nil && ctx.Err() != nil
	old := c.settle(k, f, token, err)
	if f.err == nil && err != nil && !f.givenUp {
		left := old.left(time.Now())
		c.log.Warn("service account token not renewed, the one of before is used", "token", k.String(), "valid", left, "err", err)
		c.cfg.Failed(Failure{Request: r, Err: err, Valid: left})
	}
	return f.token, f.err
}

// settle records the outcome of a request, which is the token of before where that is
// still valid. It returns the token of before.
func (c *Cache) settle(k key, f *flight, token Token, err error) (old Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(f.done)
	now := time.Now()
	f.token, f.err = token, err
	e := c.entries[k]
	if e == nil || e.flight != f { // forgotten meanwhile
		return Token{}
	}
	e.flight = nil
	old = e.token
	switch {
	case err == nil:
		e.token, e.retry = token, time.Time{}
	case old.valid(now):
		if !f.givenUp {
			e.retry = now.Add(retryPause)
		}
		f.token, f.err = e.handedOut(now), nil
	default:
		delete(c.entries, k)
	}
	c.sweepLocked(now)
	return old
}

// sweepLocked drops tokens that have expired: their pods need not have been forgotten.
func (c *Cache) sweepLocked(now time.Time) {
	if now.Sub(c.swept) < sweepPause {
		return
	}
	c.swept = now
	maps.DeleteFunc(c.entries, func(_ key, e *entry) bool { return e.flight == nil && !e.token.valid(now) })
}
