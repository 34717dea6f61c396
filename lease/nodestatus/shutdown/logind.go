package shutdown

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/godbus/dbus/v5"
)

// Names on the bus (org.freedesktop.login1(5), org.freedesktop.systemd1(5)).
const (
	logindName    = "org.freedesktop.login1"
	logindPath    = dbus.ObjectPath("/org/freedesktop/login1")
	logindManager = "org.freedesktop.login1.Manager"
	prepareSignal = "PrepareForShutdown"

	systemdName    = "org.freedesktop.systemd1"
	systemdPath    = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdManager = "org.freedesktop.systemd1.Manager"
	logindUnit     = "systemd-logind.service"
)

// DefaultDropIn is the file that raises logind's delay (logind.conf(5)); the kubelet
// writes the same one.
const DefaultDropIn = "/etc/systemd/logind.conf.d/99-kubelet.conf"

// LogindConfig configures a Logind. Its zero value works.
type LogindConfig struct {
	// Connect opens the system bus; nil: where the environment says. The connection is
	// closed when it is not needed any more.
	Connect func(ctx context.Context) (*dbus.Conn, error)
	// DropIn is the file to be written if logind allows too short a delay; empty:
	// DefaultDropIn.
	DropIn string
	// Who is the name that systemd-inhibit --list shows; empty: kubelet.
	Who string
	// Log is told when logind cannot be made to wait long enough; nil discards.
	Log *slog.Logger
}

// Logind is the Source of systemd-logind: it takes a delay inhibitor, by which logind
// waits before it takes the machine down, and raises the time that logind waits if that
// is too short. If it cannot be raised, because of another drop-in, say, the inhibitor holds
// for the time that there is. Make one with NewLogind.
type Logind struct {
	cfg LogindConfig
	// asked says that logind was made to read the drop-in. Only Watch uses it.
	asked bool

	mu sync.Mutex // guards the fields below
	// lock is the inhibitor; nil without one.
	lock *os.File
	down bool
}

// NewLogind returns a Logind. It does not connect yet.
func NewLogind(cfg LogindConfig) *Logind {
	if cfg.Connect == nil {
		cfg.Connect = func(ctx context.Context) (*dbus.Conn, error) { return dbus.ConnectSystemBus(dbus.WithContext(ctx)) }
	}
	if cfg.DropIn == "" {
		cfg.DropIn = DefaultDropIn
	}
	if cfg.Who == "" {
		cfg.Who = "kubelet"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Logind{cfg: cfg}
}

// Watch implements Source.
func (l *Logind) Watch(ctx context.Context, need time.Duration, report func(down bool)) (err error) {
	conn, err := l.cfg.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to the system bus: %w", err)
	}
	defer func() {
		_ = conn.Close() // it may be closed already
		err = errors.Join(err, l.leave(ctx))
	}()
	manager := conn.Object(logindName, logindPath)
	have, err := maxDelay(manager)
	if err != nil {
		return err
	}
	if have < need {
		if err := l.raise(ctx, conn, have, need); err != nil {
			l.cfg.Log.Warn("the machine may go down before all pods have ended", "err", err)
		}
	}
	// First listen, then hold, then look: nothing that happens in between is missed.
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	if err := conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(logindManager), dbus.WithMatchMember(prepareSignal),
		dbus.WithMatchObjectPath(logindPath)); err != nil {
		return fmt.Errorf("watch %s of logind: %w", prepareSignal, err)
	}
	holdErr := l.hold(ctx, manager)
	v, err := manager.GetProperty(logindManager + ".PreparingForShutdown")
	if err != nil {
		return fmt.Errorf("ask logind whether the machine goes down: %w", errors.Join(holdErr, err))
	}
	down, _ := v.Value().(bool)
	if holdErr != nil && !down {
		return holdErr // going down already, logind gives no inhibitors
	}
	l.tell(down, report)
	return l.follow(ctx, manager, signals, report)
}

// follow reports the signals until ctx or the connection ends.
func (l *Logind) follow(ctx context.Context, manager dbus.BusObject, signals <-chan *dbus.Signal, report func(bool)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case s, open := <-signals:
			if !open {
				if ctx.Err() != nil {
					return nil
				}
				return errors.New("the connection to the system bus ended")
			}
			down, ok := preparing(s)
			if !ok {
				continue
			}
			l.tell(down, report)
			if down {
				continue
			}
			// Called off: the next time is to be held up, too.
			if err := l.hold(ctx, manager); err != nil {
				return err
			}
		}
	}
}

// preparing returns what a signal says; ok is false if it is not the one.
func preparing(s *dbus.Signal) (down, ok bool) {
	if s == nil || s.Name != logindManager+"."+prepareSignal || len(s.Body) == 0 {
		return false, false
	}
	down, ok = s.Body[0].(bool)
	return down, ok
}

// tell reports what logind said.
func (l *Logind) tell(down bool, report func(bool)) {
	l.mu.Lock()
	l.down = down
	l.mu.Unlock()
	report(down)
}

// hold takes an inhibitor, and gives back one that it had.
func (l *Logind) hold(ctx context.Context, manager dbus.BusObject) error {
	var fd dbus.UnixFD
	call := manager.CallWithContext(ctx, logindManager+".Inhibit", 0, "shutdown", l.cfg.Who, "pods need time to end", "delay")
	if err := call.Store(&fd); err != nil {
		return fmt.Errorf("take an inhibitor from logind: %w", err)
	}
	l.mu.Lock()
	old := l.lock
	l.lock = os.NewFile(uintptr(fd), "inhibitor of logind")
	l.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Release implements Source.
func (l *Logind) Release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.releaseLocked()
}

func (l *Logind) releaseLocked() error {
	if l.lock == nil {
		return nil
	}
	err := l.lock.Close()
	l.lock = nil
	if err != nil {
		return fmt.Errorf("give back the inhibitor of logind: %w", err)
	}
	return nil
}

// leave is called when nothing is watched any more. A machine that is going down stays
// held up until the pods have ended, with or without the bus.
func (l *Logind) leave(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down && ctx.Err() == nil {
		return nil
	}
	return l.releaseLocked()
}

// raise makes logind wait long enough. What did not help is not done again unless the file was
// changed: logind reads all of its configuration then.
func (l *Logind) raise(ctx context.Context, conn *dbus.Conn, have, need time.Duration) error {
	changed, err := l.writeDropIn(need)
	if err != nil {
		return fmt.Errorf("raise the delay of logind to %s: %w", need, err)
	}
	if !changed && l.asked {
		return l.tooShort(have, need)
	}
	if err := l.reload(ctx, conn); err != nil {
		return err
	}
	return l.awaitDelay(ctx, conn.Object(logindName, logindPath), need)
}

func (l *Logind) tooShort(have, need time.Duration) error {
	return fmt.Errorf("logind waits %s, want %s; does another file in %s set InhibitDelayMaxSec?", have, need, filepath.Dir(l.cfg.DropIn))
}

// reload makes logind read its configuration.
func (l *Logind) reload(ctx context.Context, conn *dbus.Conn) error {
	call := conn.Object(systemdName, systemdPath).CallWithContext(ctx, systemdManager+".KillUnit", 0, logindUnit, "all", int32(syscall.SIGHUP))
	if call.Err != nil {
		return fmt.Errorf("make logind read %s: %w", l.cfg.DropIn, call.Err)
	}
	l.asked = true
	return nil
}

// awaitDelay waits until logind, which reads in its own time, waits long enough.
func (l *Logind) awaitDelay(ctx context.Context, manager dbus.BusObject, need time.Duration) error {
	var have time.Duration
	for wait := 100 * time.Millisecond; wait <= 1600*time.Millisecond; wait *= 2 {
		var err error
		if have, err = maxDelay(manager); err != nil || have >= need {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
	return l.tooShort(have, need)
}

// maxDelay returns how long logind waits for inhibitors.
func maxDelay(manager dbus.BusObject) (time.Duration, error) {
	v, err := manager.GetProperty(logindManager + ".InhibitDelayMaxUSec")
	if err != nil {
		return 0, fmt.Errorf("ask logind how long it waits: %w", err)
	}
	us, ok := v.Value().(uint64)
	if !ok {
		return 0, fmt.Errorf("ask logind how long it waits: InhibitDelayMaxUSec is %s, want a number", v)
	}
	if us > math.MaxInt64/1000 {
		return math.MaxInt64, nil // "infinity"
	}
	return time.Duration(us) * time.Microsecond, nil
}

// writeDropIn writes the file that raises the delay, and reports whether it was another one.
func (l *Logind) writeDropIn(need time.Duration) (changed bool, err error) {
	content := fmt.Appendf(nil, "# Written for the graceful shutdown of this node's pods.\n[Login]\nInhibitDelayMaxSec=%d\n",
		int64(math.Ceil(need.Seconds())))
	if was, err := os.ReadFile(l.cfg.DropIn); err == nil && bytes.Equal(was, content) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(l.cfg.DropIn), 0o755); err != nil {
		return false, err
	}
	return true, os.WriteFile(l.cfg.DropIn, content, 0o644)
}
