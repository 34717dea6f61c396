package auth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodekit-go/nodekit/runtime/server/auth"
)

// When the API server is asked again about a token.
func TestTokensAreKept(t *testing.T) {
	second, minute := time.Second, time.Minute
	tests := []struct {
		name  string
		ttl   time.Duration
		token string
		// waits are the times between requests, asked how often the API server was asked
		// after each of them.
		waits []time.Duration
		asked []int
	}{
		{"a good one", 0, "good", []time.Duration{0, 2*minute - second, second, minute}, []int{1, 1, 2, 2}},
		{"one of nobody", 0, "bad", []time.Duration{0, 2*minute - second, second, minute}, []int{1, 1, 2, 2}},
		{"for ten seconds", 10 * second, "good", []time.Duration{0, 9 * second, second}, []int{1, 1, 2}},
		{"not at all", -1, "good", []time.Duration{0, 0, second}, []int{1, 2, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := protect(t, func(c *auth.Config) { c.TokenTTL, c.Mode, c.Access = tt.ttl, auth.AlwaysAllow, nil })
				for i, wait := range tt.waits {
					<-time.After(wait)
					f.ask("GET", "/pods", tt.token)
					if got := f.tokens.times(); got != tt.asked[i] {
						t.Errorf("after request %d the API server was asked %d times, want %d", i+1, got, tt.asked[i])
					}
				}
			})
		})
	}
}

// When the API server is asked again about a right: what it allows is kept for five
// minutes, what it denies for half of one.
func TestRightsAreKept(t *testing.T) {
	second, minute := time.Second, time.Minute
	tests := []struct {
		name    string
		allowed bool
		allow   time.Duration
		waits   []time.Duration
		asked   []int
	}{
		{"allowed", true, 0, []time.Duration{0, 5*minute - second, second}, []int{1, 1, 2}},
		{"denied", false, 0, []time.Duration{0, 29 * second, second}, []int{1, 1, 2}},
		{"not kept", true, -1, []time.Duration{0, 0}, []int{1, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := protect(t, func(c *auth.Config) { c.AllowTTL = tt.allow })
				if tt.allowed {
					f.access.allow("alice get metrics")
				}
				for i, wait := range tt.waits {
					<-time.After(wait)
					f.ask("GET", "/metrics/resource", "good")
					if got := f.access.times(); got != tt.asked[i] {
						t.Errorf("after request %d the API server was asked %d times, want %d", i+1, got, tt.asked[i])
					}
				}
			})
		})
	}
}

// Errors are told and not kept: the next request asks anew.
func TestErrorsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := protect(t, nil)
		f.access.allow("alice get metrics")
		f.tokens.set(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
			return authenticationv1.TokenReviewStatus{Error: "the webhook does not answer"}, nil
		})
		if got := f.ask("GET", "/metrics", "good"); got != "401 Unauthorized" {
			t.Errorf("the answer is %q", got)
		}
		f.tokens.set(nil)
		f.access.set(func(context.Context) (authorizationv1.SubjectAccessReviewStatus, error) {
			return authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}, nil
		})
		if got, want := f.ask("GET", "/metrics", "good"), "500 Authorization error (user=alice, verb=get, resource=nodes, subresource=metrics)"; got != want {
			t.Errorf("the answer is %q, want %q", got, want)
		}
		f.access.set(nil)
		if got := f.ask("GET", "/metrics", "good"); got != "200 alice" {
			t.Errorf("the answer is %q", got)
		}
	})
}

// A fault of the API server that passes is waited out, as long as the kubelet does.
func TestPassingFaults(t *testing.T) {
	tests := []struct {
		name   string
		faults int
		want   string
		asked  int
	}{
		{"four of them", 4, "200 alice", 5},
		{"too many", 100, "401 Unauthorized", 5},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := protect(t, func(c *auth.Config) { c.Mode, c.Access = auth.AlwaysAllow, nil })
				left := tt.faults
				f.tokens.set(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
					if left--; left >= 0 {
						return authenticationv1.TokenReviewStatus{}, apierrors.NewInternalError(fmt.Errorf("etcd has no leader"))
					}
					return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "alice"}}, nil
				})
				if got := f.ask("GET", "/pods", "good"); got != tt.want {
					t.Errorf("the answer is %q, want %q", got, tt.want)
				}
				if got := f.tokens.times(); got != tt.asked {
					t.Errorf("the API server was asked %d times, want %d", got, tt.asked)
				}
			})
		})
	}
}

// Many who come with the same token at the same time are one question, and no more than
// ten questions are asked at the same time.
func TestQuestionsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := protect(t, func(c *auth.Config) { c.Mode, c.Access = auth.AlwaysAllow, nil })
		release := make(chan struct{})
		f.tokens.set(func(context.Context) (authenticationv1.TokenReviewStatus, error) {
			<-release
			return authenticationv1.TokenReviewStatus{Authenticated: true, User: authenticationv1.UserInfo{Username: "alice"}}, nil
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if got := f.ask("GET", "/pods", "good"); got != "200 alice" {
					t.Errorf("the answer is %q", got)
				}
			})
		}
		synctest.Wait()
		if got := f.tokens.times(); got != 1 {
			t.Errorf("the API server was asked %d times about one token", got)
		}
		for i := range 100 {
			wg.Go(func() { f.ask("GET", "/pods", fmt.Sprint("token-", i)) })
		}
		synctest.Wait()
		if got := f.tokens.times(); got != 10 {
			t.Errorf("the API server has %d questions at the same time, want 10", got)
		}
		close(release)
		wg.Wait()
		if got := f.tokens.times(); got != 101 {
			t.Errorf("the API server was asked %d times, want 101", got)
		}
	})
}

// An API server that does not answer costs half a minute, and then the request fails.
func TestAnswersThatDoNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := protect(t, nil)
		f.tokens.set(func(ctx context.Context) (authenticationv1.TokenReviewStatus, error) {
			<-ctx.Done()
			return authenticationv1.TokenReviewStatus{}, ctx.Err()
		})
		began := time.Now()
		if got := f.ask("GET", "/pods", "good"); got != "401 Unauthorized" {
			t.Errorf("the answer is %q", got)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// Who asks and goes, or is told to, waits for no API server: neither the first who asks nor
// those who share its question.
func TestNobodyWaitsBeyondTheirRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := protect(t, func(c *auth.Config) { c.Mode, c.Access = auth.AlwaysAllow, nil })
		f.tokens.set(func(ctx context.Context) (authenticationv1.TokenReviewStatus, error) {
			<-ctx.Done()
			return authenticationv1.TokenReviewStatus{}, ctx.Err()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				r := httptest.NewRequest("GET", "/pods", http.NoBody).WithContext(ctx)
				r.Header.Set("Authorization", "Bearer good")
				if got := f.send(r); got != "401 Unauthorized" {
					t.Errorf("the answer is %q", got)
				}
				if took := time.Since(began); took != 5*time.Second {
					t.Errorf("a request of five seconds took %s", took)
				}
			})
		}
		wg.Wait()
		if got := f.tokens.times(); got != 1 {
			t.Errorf("the API server was asked %d times, want once", got)
		}
		<-time.After(time.Minute) // the question ends by itself
	})
}
