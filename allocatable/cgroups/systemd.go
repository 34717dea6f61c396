//go:build linux

package cgroups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godbus/dbus/v5"
)

// Names on the bus (org.freedesktop.systemd1(5)).
const (
	systemdName    = "org.freedesktop.systemd1"
	systemdPath    = dbus.ObjectPath("/org/freedesktop/systemd1")
	systemdManager = "org.freedesktop.systemd1.Manager"
	jobRemoved     = "JobRemoved"
)

// SystemdConfig configures a [Systemd]. Its zero value works.
type SystemdConfig struct {
	// Connect opens the system bus; nil: where the environment says, which is
	// /run/dbus/system_bus_socket by default. Each call to systemd has a connection of
	// its own, so that a bus that was restarted is found again.
	Connect func(ctx context.Context) (*dbus.Conn, error)
	// Timeout bounds one call, with the job that it starts; 0: 30 seconds, as in runc.
	Timeout time.Duration
}

// Systemd makes slices by asking systemd over D-Bus: it is the [Slices] of a node whose
// runtime has the systemd driver. It may be used from several goroutines at once; a few
// calls are under way at the same time, others wait. systemd 242 or newer is needed.
type Systemd struct {
	cfg SystemdConfig
	// turns has a place for each call that may be under way.
	turns chan struct{}
}

// callsAtOnce is small: each has a connection, and the bus refuses them if there are many
// (max_connections_per_user of dbus-daemon(1), 256 by default, for all programs of root).
const callsAtOnce = 8

// NewSystemd returns a Systemd. It does not connect yet.
func NewSystemd(cfg SystemdConfig) *Systemd {
	if cfg.Connect == nil {
		cfg.Connect = func(ctx context.Context) (*dbus.Conn, error) { return dbus.ConnectSystemBus(dbus.WithContext(ctx)) }
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &Systemd{cfg: cfg, turns: make(chan struct{}, callsAtOnce)}
}

// property is a Property on the wire.
type property struct {
	Name  string
	Value dbus.Variant
}

// auxiliary is another unit to be made with one; there never is.
type auxiliary struct {
	Name       string
	Properties []property
}

func onWire(properties []Property) []property {
	out := []property{}
	for _, p := range properties {
		out = append(out, property{p.Name, dbus.MakeVariant(p.Value)})
	}
	return out
}

// Start implements [Slices].
func (s *Systemd) Start(ctx context.Context, slice string, properties []Property) error {
	err := s.ask(ctx, func(ctx context.Context, b *bus) error {
		err := b.job(ctx, slice, "StartTransientUnit", slice, "replace", onWire(properties), []auxiliary{})
		if is(err, "org.freedesktop.systemd1.UnitExists") {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("have systemd start %s: %w", slice, err)
	}
	return nil
}

// Set implements [Slices]. The properties hold until the machine is booted again.
func (s *Systemd) Set(ctx context.Context, slice string, properties []Property) error {
	err := s.ask(ctx, func(ctx context.Context, b *bus) error {
		return b.call(ctx, "SetUnitProperties", slice, true, onWire(properties)).Err
	})
	if err != nil {
		return fmt.Errorf("have systemd set properties of %s: %w", slice, err)
	}
	return nil
}

// Stop implements [Slices].
func (s *Systemd) Stop(ctx context.Context, slice string) error {
	err := s.ask(ctx, func(ctx context.Context, b *bus) error {
		err := b.job(ctx, slice, "StopUnit", slice, "replace")
		if noSuchUnit(err) {
			return nil
		}
		if err == nil {
			err = b.reset(ctx, slice) // systemd remembers a unit that has failed
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("have systemd stop %s: %w", slice, err)
	}
	return nil
}

// ask makes a call in its turn, and again over a new connection if that was lost: each can
// be repeated.
func (s *Systemd) ask(ctx context.Context, do func(context.Context, *bus) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	select {
	case s.turns <- struct{}{}:
		defer func() { <-s.turns }()
	case <-ctx.Done():
		return fmt.Errorf("wait for earlier calls: %w", ctx.Err())
	}
	const first, last = 100 * time.Millisecond, 400 * time.Millisecond
	for wait := first; ; wait *= 2 {
		err := s.once(ctx, do)
		if !lost(err) || wait > last || ctx.Err() != nil {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		timer.Stop()
	}
}

// once connects, makes a call and disconnects.
func (s *Systemd) once(ctx context.Context, do func(context.Context, *bus) error) error {
	conn, err := s.cfg.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to the system bus: %w", err)
	}
	defer func() { _ = conn.Close() }() // it may be closed already
	return do(ctx, &bus{conn})
}

// lost reports whether an error is that of a connection: nobody knows then whether the call
// was answered.
func lost(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*JobError)) {
		return false
	}
	reply, isReply := errors.AsType[dbus.Error](err)
	return !isReply || reply.Name == "org.freedesktop.DBus.Error.NoReply" || reply.Name == "org.freedesktop.DBus.Error.Disconnected"
}

// JobError is the end of a job of systemd that is not "done".
type JobError struct {
	// Unit is what the job was for, Result how it ended: canceled, timeout, failed,
	// dependency or skipped.
	Unit, Result string
}

func (e *JobError) Error() string { return fmt.Sprintf("the job of %s ended as %q", e.Unit, e.Result) }

// bus is a connection for one call.
type bus struct{ conn *dbus.Conn }

func (b *bus) call(ctx context.Context, method string, args ...any) *dbus.Call {
	return b.conn.Object(systemdName, systemdPath).CallWithContext(ctx, systemdManager+"."+method, 0, args...)
}

// job makes a call that starts a job and waits until that has ended.
func (b *bus) job(ctx context.Context, unit, method string, args ...any) error {
	signals := make(chan *dbus.Signal, 16)
	b.conn.Signal(signals)
	err := b.conn.AddMatchSignalContext(ctx, dbus.WithMatchInterface(systemdManager), dbus.WithMatchMember(jobRemoved),
		dbus.WithMatchObjectPath(systemdPath))
	if err != nil {
		return fmt.Errorf("watch %s: %w", jobRemoved, err)
	}
	if err := b.call(ctx, "Subscribe").Err; err != nil {
		return fmt.Errorf("subscribe to what systemd tells: %w", err)
	}
	var job dbus.ObjectPath
	if err := b.call(ctx, method, args...).Store(&job); err != nil {
		return err
	}
	result, err := await(ctx, signals, job)
	if err != nil || result == "done" {
		return err
	}
	return errors.Join(&JobError{Unit: unit, Result: result}, b.reset(ctx, unit))
}

var errHungUp = errors.New("the connection to the system bus ended")

// await waits for the end of a job and returns its result.
func await(ctx context.Context, signals <-chan *dbus.Signal, job dbus.ObjectPath) (string, error) {
	for {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("wait for %s: %w", job, ctx.Err())
		case s, open := <-signals:
			if !open {
				return "", errHungUp
			}
			if path, result := removed(s); path == job {
				return result, nil
			}
		}
	}
}

// removed returns the job that a signal tells the end of, and how it ended: the arguments
// are its number, its path, its unit and the result.
func removed(s *dbus.Signal) (job dbus.ObjectPath, result string) {
	if s == nil || s.Name != systemdManager+"."+jobRemoved || len(s.Body) != 4 {
		return "", ""
	}
	job, _ = s.Body[1].(dbus.ObjectPath)
	result, _ = s.Body[3].(string)
	return job, result
}

// reset has systemd forget that a unit has failed, if it knows it.
func (b *bus) reset(ctx context.Context, unit string) error {
	if err := b.call(ctx, "ResetFailedUnit", unit).Err; err != nil && !noSuchUnit(err) {
		return fmt.Errorf("reset the failure of %s: %w", unit, err)
	}
	return nil
}

func noSuchUnit(err error) bool { return is(err, "org.freedesktop.systemd1.NoSuchUnit") }

// is reports whether an error is a reply with a name.
func is(err error, name string) bool {
	reply, ok := errors.AsType[dbus.Error](err)
	return ok && reply.Name == name
}
