package soak

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// late is an error of a request that was given up.
type late struct{ error }

func (late) Timeout() bool   { return true }
func (late) Temporary() bool { return false }

func TestAsk(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := []struct {
		name      string
		err       error
		wantAgain bool
	}{
		{"no error", nil, false},
		{"no time", apierrors.NewTimeoutError("request did not complete", 1), true},
		{"a server without time", apierrors.NewServerTimeout(pods, "create", 1), true},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), true},
		{"an internal error", apierrors.NewInternalError(errors.New("etcdserver: request timed out")), true},
		{"no answer", &url.Error{Op: "Post", URL: "https://10.20.0.1", Err: late{errors.New("late")}}, true},
		{"a refusal", apierrors.NewForbidden(pods, "a", errors.New("no")), false},
		{"a pod that is not there", apierrors.NewNotFound(pods, "a"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := ask(t.Context(), func(context.Context) error {
					if calls++; calls > 2 {
						return nil
					}
					return tt.err
				})
				switch {
				case tt.wantAgain && (calls != 3 || err != nil):
					t.Errorf("%d calls, %v; want three", calls, err)
				case !tt.wantAgain && (calls != 1 || !errors.Is(err, tt.err)):
					t.Errorf("%d calls, %v; want one, and its error", calls, err)
				}
			})
		})
	}
	if made(apierrors.NewAlreadyExists(pods, "a")) != nil || gone(apierrors.NewNotFound(pods, "a")) != nil {
		t.Error("what was done before the answer was lost counts as an error")
	}
	if made(apierrors.NewNotFound(pods, "a")) == nil || gone(apierrors.NewAlreadyExists(pods, "a")) == nil {
		t.Error("an error is lost")
	}
}

func TestGet(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/well":
			_, _ = w.Write([]byte("pod-1"))
		case "/ill":
			http.Error(w, "no endpoint", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	defer server.Client().CloseIdleConnections()
	for path, want := range map[string]string{"/well": "", "/ill": "no endpoint", "/empty": "empty"} {
		body, err := get(t.Context(), server.Client(), server.URL+path)
		switch {
		case want == "" && (err != nil || string(body) != "pod-1"):
			t.Errorf("%s: %q, %v", path, body, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want one with %s", path, err, want)
		}
	}
}
