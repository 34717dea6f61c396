package probestest_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nodekit-go/nodekit/internal/leakcheck"
	"github.com/nodekit-go/nodekit/probes"
	"github.com/nodekit-go/nodekit/probes/probestest"
)

func TestMain(m *testing.M) { leakcheck.Main(m) }

func TestScriptSteps(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name    string
		step    probestest.Step
		want    probes.Outcome
		wantErr error
		took    time.Duration
	}{
		{name: "zero", want: probes.Success},
		{name: "failure", step: probestest.Fail("no"), want: probes.Failure},
		{name: "error", step: probestest.Step{Err: broken}, wantErr: broken},
		{name: "slow", step: probestest.Step{Takes: time.Second}, want: probes.Success, took: time.Second},
		{name: "too slow", step: probestest.Step{Takes: time.Minute}, wantErr: context.DeadlineExceeded, took: 5 * time.Second},
		{name: "deaf", step: probestest.Step{Takes: time.Minute, Deaf: true}, want: probes.Success, took: time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				s := probestest.NewScript(tt.step)
				res, err := s.Probe(ctx)
				if res.Outcome != tt.want || !errors.Is(err, tt.wantErr) {
					t.Errorf("got %v, %v; want %v, %v", res, err, tt.want, tt.wantErr)
				}
				if took := s.Calls()[0].Took; took != tt.took {
					t.Errorf("took %s, want %s", took, tt.took)
				}
			})
		})
	}
}

func TestScriptExec(t *testing.T) {
	s := probestest.NewScript(probestest.Fail("bad"), probestest.Succeed())
	for i, want := range []int{1, 0} {
		code, _, err := s.Exec(t.Context(), "c", []string{"x"}, time.Second)
		if code != want || err != nil {
			t.Errorf("call %d: %d, %v; want %d", i, code, err, want)
		}
	}
}

func TestScriptPanics(t *testing.T) {
	s := probestest.NewScript(probestest.Step{Panic: true, Message: "as told"})
	defer func() {
		if p := recover(); p != "as told" {
			t.Errorf("recovered %v", p)
		}
		if now, _ := s.InFlight(); now != 0 {
			t.Errorf("%d calls in flight", now)
		}
	}()
	_, _ = s.Probe(t.Context())
}

func TestReplies(t *testing.T) {
	server := httptest.NewServer(probestest.Replies{
		"/a": {Status: 418, Header: http.Header{"X-A": {"b"}}, Body: "ab", Repeat: 2, Delay: time.Millisecond, Stall: time.Millisecond},
	})
	defer server.Close()
	get := func(path string) (int, string, string) {
		resp, err := http.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header.Get("X-A"), string(body)
	}
	if code, header, body := get("/a"); code != 418 || header != "b" || body != "abab" {
		t.Errorf("got %d %q %q", code, header, body)
	}
	if code, _, _ := get("/b"); code != 404 {
		t.Errorf("an unknown path is %d", code)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestRaw(t *testing.T) {
	addr := probestest.Raw(t, func(conn net.Conn) { _, _ = conn.Write([]byte("hello")) })
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "hello" {
		t.Errorf("got %q, %v", got, err)
	}
	if host, port := probestest.HostPort(t, "http://"+addr); net.JoinHostPort(host, port) != addr {
		t.Errorf("HostPort splits %s into %s and %s", addr, host, port)
	}
	if _, err := net.Dial("tcp", probestest.Unused(t)); err == nil {
		t.Error("somebody listens on an unused port")
	}
}
