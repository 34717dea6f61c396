package healthcheck

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestHandler(t *testing.T) {
	tests := []struct {
		name        string
		waited      time.Duration // by the oldest change; 0 is none
		leaving     bool
		wantHealthz int
		wantLivez   int
	}{
		{name: "nothing waits", wantHealthz: 200, wantLivez: 200},
		{name: "a change waits not long", waited: time.Minute, wantHealthz: 200, wantLivez: 200},
		{name: "a change waits too long", waited: time.Minute + 1, wantHealthz: 503, wantLivez: 503},
		{name: "the node is leaving", leaving: true, wantHealthz: 503, wantLivez: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				now := time.Now()
				st := proxier.Status{LastSuccess: now.Add(-time.Hour)}
				if tt.waited > 0 {
					st.QueuedSince = now.Add(-tt.waited)
				}
				s, err := New("127.0.0.1:0", Config{
					Status:       func() proxier.Status { return st },
					NodeEligible: func() bool { return !tt.leaving },
				})
				if err != nil {
					t.Fatal(err)
				}
				h := s.Handler()
				healthy := tt.wantLivez == 200
				updated := now
				if !healthy {
					updated = st.LastSuccess
				}
				want := map[string]any{
					"lastUpdated": stamp(updated), "currentTime": stamp(now), "healthy": healthy,
					"status": map[string]any{
						"IPv4": map[string]any{"lastUpdated": stamp(st.LastSuccess), "healthy": healthy},
						"IPv6": map[string]any{"lastUpdated": stamp(st.LastSuccess), "healthy": healthy},
					},
				}
				check(t, h, "/livez", tt.wantLivez, want)
				want["nodeEligible"] = !tt.leaving
				check(t, h, "/healthz", tt.wantHealthz, want)
			})
		})
	}
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }

func check(t *testing.T, h http.Handler, path string, code int, want map[string]any) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	if w.Code != code {
		t.Errorf("%s answers %d, want %d", path, w.Code, code)
	}
	for k, v := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(k); got != v {
			t.Errorf("%s has header %s %q, want %q", path, k, got, v)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("%s answers %q: %v", path, w.Body, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func status() proxier.Status { return proxier.Status{} }

func TestServerRun(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := taken.Addr().String()
	hard, err := New(addr, Config{Status: status, BindHardFail: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := hard.Run(t.Context()); err == nil {
		t.Error("Run() on an address in use = nil, want an error")
	}
	taken.Close()

	s, err := New(addr, Config{Status: status})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	for {
		resp, err := http.Get("http://" + addr + "/healthz")
		if err != nil { // not bound yet
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("/healthz answers %s", resp.Status)
		}
		break
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run() = %v, want nil", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for name, f := range map[string]func() (*Server, error){
		"no status":      func() (*Server, error) { return New("127.0.0.1:0", Config{}) },
		"no port":        func() (*Server, error) { return New("127.0.0.1", Config{Status: status}) },
		"negative limit": func() (*Server, error) { return New("127.0.0.1:0", Config{Status: status, StaleAfter: -1}) },
	} {
		if _, err := f(); err == nil {
			t.Errorf("New() with %s: want an error", name)
		}
	}
}
