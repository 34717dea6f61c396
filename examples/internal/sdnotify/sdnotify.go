// Package sdnotify tells systemd that a service has started, that it is alive and that it
// ends, by the protocol of sd_notify(3).
//
// A program that was not started by systemd tells nobody: every call is then empty.
package sdnotify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Service is how the service manager is told. Its methods may be called from any
// goroutine, and do nothing on nil.
type Service struct {
	socket string
	// watchdog is the time within which a sign of life is due; 0: none is wanted.
	watchdog time.Duration
}

// FromEnv returns the Service that the variables of systemd describe; nil when there is
// none. Getenv is os.Getenv, pid the process's own.
func FromEnv(getenv func(string) string, pid int) (*Service, error) {
	socket := getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil, nil //nolint:nilnil // nobody is told
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil, fmt.Errorf("NOTIFY_SOCKET is %q, want a path or a name after @", socket)
	}
	s := &Service{socket: socket}
	usec := getenv("WATCHDOG_USEC")
	if whose := getenv("WATCHDOG_PID"); usec == "" || whose != "" && whose != strconv.Itoa(pid) {
		return s, nil
	}
	n, err := strconv.ParseInt(usec, 10, 64)
	if err != nil || n <= 0 || n > int64(24*time.Hour/time.Microsecond) {
		return nil, fmt.Errorf("WATCHDOG_USEC is %q, want a number of microseconds, a day at most", usec)
	}
	s.watchdog = time.Duration(n) * time.Microsecond
	return s, nil
}

// Ready says that the service has started.
func (s *Service) Ready() error { return s.send("READY=1") }

// Stopping says that the service ends.
func (s *Service) Stopping() error { return s.send("STOPPING=1") }

// Watchdog says that the service is alive, twice as often as it has to, as long as stuck
// returns nil, until ctx ends. What kept it from saying so is logged.
func (s *Service) Watchdog(ctx context.Context, stuck func() error, log *slog.Logger) error {
	if s == nil || s.watchdog == 0 {
		return nil
	}
	tick := time.NewTicker(s.watchdog / 2)
	defer tick.Stop()
	for {
		err := stuck()
		if err != nil {
			log.Error("not alive, systemd may restart this program", "within", s.watchdog, "err", err)
		} else if err := s.send("WATCHDOG=1"); err != nil {
			log.Warn("systemd was not told that this program is alive", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// send sends one state. An end of the socket that is gone is an error, a full one is
// waited for.
func (s *Service) send(state string) error {
	if s == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	err = conn.SetWriteDeadline(time.Now().Add(sendTimeout))
	if err == nil {
		_, err = conn.Write([]byte(state))
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("tell systemd %s: %w", state, err)
	}
	return nil
}

// sendTimeout is how long systemd may leave its socket full.
const sendTimeout = 10 * time.Second

// This returns the Service of this process.
func This() (*Service, error) { return FromEnv(os.Getenv, os.Getpid()) }
