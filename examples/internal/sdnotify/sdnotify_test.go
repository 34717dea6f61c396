package sdnotify

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func getenv(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

func TestFromEnv(t *testing.T) {
	tests := []struct {
		name string
		vars map[string]string
		want *Service
		err  string
	}{
		{name: "not systemd"},
		{name: "watchdog without a socket", vars: map[string]string{"WATCHDOG_USEC": "1000000"}},
		{name: "no watchdog", vars: map[string]string{"NOTIFY_SOCKET": "/run/s"}, want: &Service{socket: "/run/s"}},
		{name: "watchdog", vars: map[string]string{"NOTIFY_SOCKET": "@s", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "7"}, want: &Service{socket: "@s", watchdog: 30 * time.Second}},
		{name: "watchdog of a parent", vars: map[string]string{"NOTIFY_SOCKET": "@s", "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, want: &Service{socket: "@s"}},
		{name: "no socket", vars: map[string]string{"NOTIFY_SOCKET": "vsock:2:1"}, err: "NOTIFY_SOCKET"},
		{name: "no number", vars: map[string]string{"NOTIFY_SOCKET": "@s", "WATCHDOG_USEC": "soon"}, err: "WATCHDOG_USEC"},
		{name: "too much", vars: map[string]string{"NOTIFY_SOCKET": "@s", "WATCHDOG_USEC": "9223372036854775807"}, err: "WATCHDOG_USEC"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := FromEnv(getenv(tt.vars), 7)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error is %v, want one of %s", err, tt.err)
				}
				return
			}
			if err != nil || (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tt.want)
			}
		})
	}
}

// manager is the socket of a service manager.
func manager(t *testing.T) (path string, next func() string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return path, func() string {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatalf("the manager was told nothing: %v", err)
		}
		return string(buf[:n])
	}
}

func TestTells(t *testing.T) {
	path, next := manager(t)
	s := &Service{socket: path}
	for _, tt := range []struct {
		tell func() error
		want string
	}{{s.Ready, "READY=1"}, {s.Stopping, "STOPPING=1"}} {
		if err := tt.tell(); err != nil {
			t.Fatal(err)
		}
		if got := next(); got != tt.want {
			t.Errorf("told %q, want %q", got, tt.want)
		}
	}
	gone := &Service{socket: path + "-gone"}
	if err := gone.Ready(); err == nil || !strings.Contains(err.Error(), "READY=1") {
		t.Errorf("error of a socket that is gone is %v", err)
	}
}

func TestNobodyIsTold(t *testing.T) {
	var s *Service
	if err := errors.Join(s.Ready(), s.Stopping(), s.Watchdog(t.Context(), nil, nil)); err != nil {
		t.Error(err)
	}
}

// TestWatchdog: signs of life come while the program lives, none while it is stuck.
func TestWatchdog(t *testing.T) {
	path, next := manager(t)
	s := &Service{socket: path, watchdog: 20 * time.Millisecond}
	ctx, stop := context.WithCancel(t.Context())
	var asked atomic.Int32
	said := make(chan struct{})
	stuck := func() error {
		switch asked.Add(1) {
		case 2:
			return errors.New("loop stands still")
		case 3:
			close(said)
		}
		return nil
	}
	ended := make(chan error, 1)
	var log strings.Builder
	go func() { ended <- s.Watchdog(ctx, stuck, slog.New(slog.NewTextHandler(&log, nil))) }()
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("told %q, want WATCHDOG=1", got)
	}
	<-said // it was stuck meanwhile
	if got := next(); got != "WATCHDOG=1" {
		t.Errorf("told %q, want WATCHDOG=1", got)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := log.String(); strings.Count(got, "loop stands still") != 1 {
		t.Errorf("the log has %s, want one line about the loop", got)
	}
	if asked.Load() < 3 {
		t.Errorf("it was asked %d times", asked.Load())
	}
}
