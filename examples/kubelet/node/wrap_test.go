package node

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestRefusedRequestsAreWrapped(t *testing.T) {
	seen := 0
	wrap := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen++; h.ServeHTTP(w, r) })
	}
	protect := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	}
	rec := httptest.NewRecorder()
	wrapped(protect, wrap)(http.NotFoundHandler()).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/pods", nil))
	if seen != 1 || rec.Code != http.StatusUnauthorized {
		t.Errorf("seen %d times, answered %d", seen, rec.Code)
	}
	if wrapped(nil, wrap) != nil {
		t.Error("an API that lets nobody in was opened")
	}
}
