package tokens_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodekit-go/nodekit/podworker/volume/tokens"
)

// server answers like an API server: a token with a number, for as long as was asked.
type server struct {
	delay time.Duration // before each answer
	grant int64         // seconds that are granted whatever is asked; 0: as asked
	empty bool          // answers hold no token

	mu    sync.Mutex // guards the fields below
	down  error      // what requests fail with
	asked []request
}

// request is one that came.
type request struct {
	Namespace, Account string
	Audiences          []string
	Seconds            int64
	Pod                types.UID
}

func (s *server) set(down error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// count is how many requests came.
func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked)
}

// in is the client of a namespace.
type in struct {
	*server
	namespace string
}

func (s in) CreateToken(ctx context.Context, account string, r *authenticationv1.TokenRequest, _ metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	s.mu.Lock()
	s.asked = append(s.asked, request{s.namespace, account, r.Spec.Audiences, *r.Spec.ExpirationSeconds, r.Spec.BoundObjectRef.UID})
	n, down := len(s.asked), s.down
	s.mu.Unlock()
	select {
	case <-time.After(s.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	switch {
	case down != nil:
		return nil, down
	case s.empty:
		return r, nil
	}
	answer := r.DeepCopy()
	if s.grant > 0 {
		answer.Spec.ExpirationSeconds = &s.grant
	}
	life := time.Duration(*answer.Spec.ExpirationSeconds) * time.Second
	answer.Status.Token = fmt.Sprintf("secret-%d", n)
	answer.Status.ExpirationTimestamp = metav1.NewTime(time.Now().Add(life))
	return answer, nil
}

func (s *server) cache(t *testing.T, cfg tokens.Config) *tokens.Cache {
	t.Helper()
	c, err := tokens.New(func(namespace string) tokens.Client { return in{s, namespace} }, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// pod is one whose projected volume asks for tokens of audiences.
func pod(uid types.UID, audiences ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", UID: uid}}
	p.Spec.ServiceAccountName = "cart"
	source := &corev1.ProjectedVolumeSource{}
	for _, a := range audiences {
		source.Sources = append(source.Sources, corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: a}})
	}
	p.Spec.Volumes = []corev1.Volume{{Name: "id", VolumeSource: corev1.VolumeSource{Projected: source}}}
	return p
}

// passes lets time pass in a synctest bubble.
func passes(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of a synctest bubble
}

// get returns the value of a token, which there has to be.
func get(t *testing.T, c *tokens.Cache, r tokens.Request) string {
	t.Helper()
	token, err := c.Get(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return token.Value()
}

func TestRenewal(t *testing.T) {
	tests := []struct {
		name     string
		lifetime time.Duration
		grant    int64         // what the server grants in seconds, 0: as asked
		keep     time.Duration // after which the token is still the same
		renew    time.Duration // after which there is another one
	}{
		{name: "an hour", keep: 48*time.Minute - 11*time.Second, renew: 48 * time.Minute},
		{name: "ten minutes", lifetime: 10 * time.Minute, keep: 8*time.Minute - 11*time.Second, renew: 8 * time.Minute},
		{name: "ten seconds, with little jitter", lifetime: 10 * time.Second, keep: 7490 * time.Millisecond, renew: 8 * time.Second},
		{name: "a week is a day", lifetime: 7 * 24 * time.Hour, keep: 24*time.Hour - 11*time.Second, renew: 24 * time.Hour},
		{name: "the server grants more", lifetime: 10 * time.Minute, grant: 3600, keep: 48*time.Minute - 11*time.Second, renew: 48 * time.Minute},
		{name: "the server grants less", lifetime: time.Hour, grant: 600, keep: 8*time.Minute - 11*time.Second, renew: 8 * time.Minute},
		{name: "the server grants forever", grant: 1<<63 - 1, keep: 24*time.Hour - 11*time.Second, renew: 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{grant: tt.grant}
				c := s.cache(t, tokens.Config{})
				r := tokens.Request{Pod: pod("1", ""), Lifetime: tt.lifetime}
				first, err := c.Get(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if in := time.Until(first.Refresh); in <= tt.keep || in > tt.renew {
					t.Errorf("Refresh is in %s, want between %s and %s", in, tt.keep, tt.renew)
				}
				passes(tt.keep)
				if got := get(t, c, r); got != "secret-1" {
					t.Errorf("after %s the token is %s, want the first one", tt.keep, got)
				}
				passes(tt.renew - tt.keep)
				if got := get(t, c, r); got != "secret-2" {
					t.Errorf("after %s the token is %s, want the second one", tt.renew, got)
				}
			})
		})
	}
}

// TestKey has the same token for equal requests alone.
func TestKey(t *testing.T) {
	s := &server{}
	c := s.cache(t, tokens.Config{})
	other := pod("1", "a")
	other.Spec.ServiceAccountName = "till"
	elsewhere := pod("1", "a")
	elsewhere.Namespace = "bank"
	requests := []tokens.Request{
		{Pod: pod("1", "a", "b"), Audience: "a"},
		{Pod: pod("1", "a", "b"), Audience: "b"},
		{Pod: pod("1", "a"), Audience: "a", Lifetime: 10 * time.Minute},
		{Pod: pod("2", "a"), Audience: "a"},
		{Pod: other, Audience: "a"},
		{Pod: elsewhere, Audience: "a"},
		{Pod: pod("1", ""), Lifetime: time.Hour},
	}
	for range 2 {
		for i, r := range requests {
			if got, want := get(t, c, r), fmt.Sprintf("secret-%d", i+1); got != want {
				t.Errorf("request %d: %s, want %s", i, got, want)
			}
		}
	}
	want := []request{
		{"shop", "cart", []string{"a"}, 3600, "1"},
		{"shop", "cart", []string{"b"}, 3600, "1"},
		{"shop", "cart", []string{"a"}, 600, "1"},
		{"shop", "cart", []string{"a"}, 3600, "2"},
		{"shop", "till", []string{"a"}, 3600, "1"},
		{"bank", "cart", []string{"a"}, 3600, "1"},
		{"shop", "cart", nil, 3600, "1"},
	}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestRefusedWithoutARequest asks for what no pod may have.
func TestRefusedWithoutARequest(t *testing.T) {
	anonymous, unborn, claims := pod("1", "a"), pod("", "a"), pod("1")
	anonymous.Spec.ServiceAccountName = ""
	claims.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "disk.example"}}}}
	tests := []struct {
		name    string
		request tokens.Request
		want    string // part of the error
	}{
		{"audience that is not in the spec", tokens.Request{Pod: pod("1", "a"), Audience: "b"}, `audience "b"`},
		{"API server, which is not in the spec", tokens.Request{Pod: pod("1", "a")}, "asks for no token"},
		{"driver without a volume", tokens.Request{Pod: pod("1", "a"), Audience: "a", Driver: "disk.example"}, "asks for no token"},
		{"another driver", tokens.Request{Pod: claims, Audience: "a", Driver: "nfs.example"}, "asks for no token"},
		{"no service account", tokens.Request{Pod: anonymous, Audience: "a"}, "spec.serviceAccountName"},
		{"no UID", tokens.Request{Pod: unborn, Audience: "a"}, "metadata.uid"},
		{"no pod", tokens.Request{Audience: "a"}, "Request.Pod"},
		{"part of a second", tokens.Request{Pod: pod("1", "a"), Audience: "a", Lifetime: 1500 * time.Millisecond}, "whole seconds"},
		{"negative lifetime", tokens.Request{Pod: pod("1", "a"), Audience: "a", Lifetime: -time.Second}, "whole seconds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &server{}
			_, err := s.cache(t, tokens.Config{}).Get(t.Context(), tt.request)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want one with %q", err, tt.want)
			}
			if asked := strings.Contains(tt.want, "asks for no token"); asked && !errors.Is(err, tokens.ErrAudience) {
				t.Errorf("%v is not ErrAudience", err)
			}
			if n := s.count(); n != 0 {
				t.Errorf("%d requests reached the server", n)
			}
		})
	}
}

// TestServerAway serves the token of before while it is valid, tells so, and asks again
// after a pause.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures []tokens.Failure
		var log bytes.Buffer
		s := &server{}
		c := s.cache(t, tokens.Config{
			Failed: func(f tokens.Failure) { failures = append(failures, f) },
			Log:    slog.New(slog.NewTextHandler(&log, nil)),
		})
		r := tokens.Request{Pod: pod("1", "a"), Audience: "a"}
		get(t, c, r)
		away := errors.New("the server is away")
		s.set(away)
		passes(50 * time.Minute)
		pause := time.Now().Add(10 * time.Second)
		for range 5 { // within the pause: one attempt
			got, err := c.Get(t.Context(), r)
			if err != nil || got.Value() != "secret-1" || !got.Refresh.Equal(pause) {
				t.Errorf("the token is %s, to be asked for again at %s (%v), want the first one at %s", got.Value(), got.Refresh, err, pause)
			}
			passes(time.Second)
		}
		passes(5 * time.Second)
		get(t, c, r)
		if len(failures) != 2 || !errors.Is(failures[0].Err, away) || failures[0].Valid != 10*time.Minute || failures[0].Request.Pod.UID != "1" {
			t.Errorf("failures are %+v, want two, the first with a token for 10 minutes", failures)
		}
		if !strings.Contains(log.String(), "not renewed") || strings.Contains(log.String(), "secret") {
			t.Errorf("the log is %q, want a warning without the token", log.String())
		}
		passes(10 * time.Minute)
		if _, err := c.Get(t.Context(), r); !errors.Is(err, away) {
			t.Errorf("with a token that has ended: %v, want the error of the server", err)
		}
		s.set(nil)
		if got := get(t, c, r); !strings.HasPrefix(got, "secret-") || got == "secret-1" {
			t.Errorf("the token is %s, want a new one", got)
		}
	})
}

// TestHungServer: nobody waits longer than the limit, and not at all with a valid token
// when another one asks already.
func TestHungServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		c := s.cache(t, tokens.Config{Timeout: 3 * time.Second})
		r := tokens.Request{Pod: pod("1", "a"), Audience: "a"}
		get(t, c, r)
		s.delay = 24 * time.Hour
		passes(50 * time.Minute)
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := get(t, c, r); got != "secret-1" || time.Since(start) != 3*time.Second {
				t.Errorf("%s after %s, want the first token after 3 s", got, time.Since(start))
			}
		})
		synctest.Wait()
		got, err := c.Get(t.Context(), r)
		if err != nil || got.Value() != "secret-1" || time.Since(start) != 0 || time.Until(got.Refresh) != 10*time.Second {
			t.Errorf("%s after %s, again in %s (%v), want the first token at once, again in 10 s", got.Value(), time.Since(start), time.Until(got.Refresh), err)
		}
		wg.Wait()
		start = time.Now()
		if _, err := c.Get(t.Context(), tokens.Request{Pod: pod("2", "a"), Audience: "a"}); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 3*time.Second {
			t.Errorf("without a token: %v after %s, want an error after 3 s", err, time.Since(start))
		}
	})
}

func TestEqualRequestsAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		c := s.cache(t, tokens.Config{})
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if got := get(t, c, tokens.Request{Pod: pod("1", "a"), Audience: "a"}); got != "secret-1" {
					t.Errorf("the token is %s", got)
				}
			})
		}
		wg.Wait()
		if n := s.count(); n != 1 {
			t.Errorf("%d requests, want one", n)
		}
		// A failure is shared, too.
		s.set(errors.New("no"))
		for range 20 {
			wg.Go(func() {
				if _, err := c.Get(t.Context(), tokens.Request{Pod: pod("2", "a"), Audience: "a"}); err == nil {
					t.Error("no error")
				}
			})
		}
		wg.Wait()
		if n := s.count(); n != 2 {
			t.Errorf("%d requests, want two", n)
		}
	})
}

// TestCallerGoesAway: another one that waits makes the request.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 2 * time.Second}
		c := s.cache(t, tokens.Config{})
		r := tokens.Request{Pod: pod("1", "a"), Audience: "a"}
		hasty, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := c.Get(hasty, r); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the hasty one gets %v", err)
			}
		})
		synctest.Wait()
		wg.Go(func() {
			if got := get(t, c, r); got != "secret-2" {
				t.Errorf("the patient one gets %s, want the token of its own request", got)
			}
		})
		synctest.Wait()
		if _, err := c.Get(hasty, r); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("one that waits for another one gets %v", err)
		}
		wg.Wait()
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: time.Second}
		c := s.cache(t, tokens.Config{})
		r := tokens.Request{Pod: pod("1", "a"), Audience: "a"}
		kept := tokens.Request{Pod: pod("2", "a"), Audience: "a"}
		get(t, c, r)
		get(t, c, kept)
		c.Forget("1")
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := get(t, c, r); got != "secret-3" {
				t.Errorf("after Forget: %s, want a new token", got)
			}
		})
		synctest.Wait()
		c.Forget("1") // while a request is out: its token is not kept
		wg.Wait()
		if got := get(t, c, r); got != "secret-4" {
			t.Errorf("after Forget during a request: %s, want a new token", got)
		}
		if got := get(t, c, kept); got != "secret-2" {
			t.Errorf("the token of another pod is %s, want that of before", got)
		}
	})
}

func TestBadAnswers(t *testing.T) {
	s := &server{empty: true}
	c := s.cache(t, tokens.Config{})
	if _, err := c.Get(t.Context(), tokens.Request{Pod: pod("1", "a"), Audience: "a"}); err == nil || !strings.Contains(err.Error(), "without a token") {
		t.Errorf("an answer without a token: %v", err)
	}
	if _, err := tokens.New(nil, tokens.Config{}); err == nil {
		t.Error("New without clients: no error")
	}
	if _, err := tokens.New(func(string) tokens.Client { return nil }, tokens.Config{Timeout: -1}); err == nil {
		t.Error("New with a negative timeout: no error")
	}
}

// TestPanicOfAClient leaves nobody waiting.
func TestPanicOfAClient(t *testing.T) {
	c, err := tokens.New(func(string) tokens.Client { panic("boom") }, tokens.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call would wait for the first one forever
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_, _ = c.Get(t.Context(), tokens.Request{Pod: pod("1", "a"), Audience: "a"})
		}()
	}
}

// TestNeverPrinted formats a token in all ways there are.
func TestNeverPrinted(t *testing.T) {
	s := &server{}
	token, err := s.cache(t, tokens.Config{}).Get(t.Context(), tokens.Request{Pod: pod("1", "a"), Audience: "a"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		fmt.Fprintf(&out, verb+"\n", token)
		fmt.Fprintf(&out, verb+"\n", &token)
		fmt.Fprintf(&out, verb+"\n", struct{ T tokens.Token }{token})
	}
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "token", token, "in", []tokens.Token{token})
	if err := json.NewEncoder(&out).Encode(token); err != nil {
		t.Fatal(err)
	}
	// %x writes in hexadecimal.
	for _, secret := range []string{"secret-1", fmt.Sprintf("%x", "secret-1")} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("the token is printed:\n%s", out.String())
		}
	}
	if got := (tokens.Token{}).String(); got != "no token" {
		t.Errorf("the zero Token is %q", got)
	}
}

// TestShapes has tokens as projected volumes and CSI drivers get them.
func TestShapes(t *testing.T) {
	s := &server{}
	c := s.cache(t, tokens.Config{})
	ten := int64(600)
	value, refresh, err := c.Token(t.Context(), pod("1", "a"), &corev1.ServiceAccountTokenProjection{Audience: "a", ExpirationSeconds: &ten})
	if err != nil || string(value) != "secret-1" || time.Until(refresh) > 8*time.Minute || time.Until(refresh) < 6*time.Minute {
		t.Errorf("Token: %q until %s (%v)", value, refresh, err)
	}
	p := pod("1")
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "disk.example"}}}}
	status, refresh, err := c.ForDriver(t.Context(), p, "disk.example", storagev1.TokenRequest{Audience: "a", ExpirationSeconds: &ten})
	if err != nil || status.Token != "secret-1" || refresh.IsZero() || status.ExpirationTimestamp.IsZero() {
		t.Errorf("ForDriver: %v until %s (%v)", status, refresh, err)
	}
	if _, _, err := c.Token(t.Context(), pod("1", "a"), &corev1.ServiceAccountTokenProjection{Audience: "b"}); !errors.Is(err, tokens.ErrAudience) {
		t.Errorf("Token for another audience: %v", err)
	}
	if _, _, err := c.ForDriver(t.Context(), p, "other.example", storagev1.TokenRequest{Audience: "a"}); !errors.Is(err, tokens.ErrAudience) {
		t.Errorf("ForDriver for another driver: %v", err)
	}
}
