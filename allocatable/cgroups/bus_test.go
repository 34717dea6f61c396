//go:build linux

package cgroups_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/godbus/dbus/v5"
)

// systemd is one that answers on a bus of its own, with the protocol of D-Bus on a
// socket. It knows units, and remembers what it was asked for.
type systemd struct {
	tb       testing.TB
	path     string
	listener *net.UnixListener
	wg       sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	conns map[net.Conn]bool
	units map[string]map[string]any // properties by name of the unit
	calls []string
	jobs  int
	// onStart is told which unit starts; nil: nobody is.
	onStart func(unit string)
	// result is how jobs end; mute has them not end at all.
	result string
	mute   bool
	// hangUps is how many calls still get a closed connection for an answer.
	hangUps int
	// refusal is the name of the error that calls get; empty: none.
	refusal string
	// subscribed says that somebody wants signals.
	subscribed bool
}

func newSystemd(tb testing.TB) *systemd {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "bus")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		tb.Fatal(err)
	}
	s := &systemd{tb: tb, path: path, listener: l, conns: map[net.Conn]bool{}, units: map[string]map[string]any{}, result: "done"}
	s.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.set(func() { s.conns[c] = true })
			s.wg.Go(func() {
				s.serve(c)
				_ = c.Close()
				s.set(func() { delete(s.conns, c) })
			})
		}
	})
	tb.Cleanup(func() {
		_ = l.Close()
		s.set(func() {
			for c := range s.conns {
				_ = c.Close()
			}
		})
		s.wg.Wait()
	})
	return s
}

// connect is SystemdConfig.Connect.
func (s *systemd) connect(ctx context.Context) (*dbus.Conn, error) {
	return dbus.Connect("unix:path="+s.path, dbus.WithContext(ctx))
}

func (s *systemd) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// log returns what was asked for, and forgets it.
func (s *systemd) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls := s.calls
	s.calls = nil
	return calls
}

// unit returns the properties of a unit; nil: there is none.
func (s *systemd) unit(name string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.units[name]
}

// serve is one connection: the words of the authentication, then messages.
func (s *systemd) serve(c net.Conn) {
	r := bufio.NewReader(c)
	if _, err := r.ReadByte(); err != nil {
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		answer := ""
		switch word := strings.Fields(line); {
		case slices.Equal(word, []string{"AUTH"}):
			answer = "REJECTED EXTERNAL\r\n"
		case len(word) > 1 && word[0] == "AUTH":
			answer = "OK 0123456789abcdef0123456789abcdef\r\n"
		case slices.Equal(word, []string{"NEGOTIATE_UNIX_FD"}):
			answer = "ERROR\r\n"
		case slices.Equal(word, []string{"BEGIN"}):
			s.messages(c, r)
			return
		default:
			return
		}
		if _, err := io.WriteString(c, answer); err != nil {
			return
		}
	}
}

func (s *systemd) messages(c net.Conn, r io.Reader) {
	for {
		msg, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		if msg.Type != dbus.TypeMethodCall {
			continue
		}
		for _, answer := range s.answer(msg) {
			if answer == nil || s.send(c, answer) != nil {
				return
			}
		}
	}
}

// answer does what a call asks for; a nil message hangs up.
func (s *systemd) answer(msg *dbus.Message) []*dbus.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	method, _ := msg.Headers[dbus.FieldMember].Value().(string)
	switch method {
	case "Hello":
		return []*dbus.Message{reply(msg, ":1.1")}
	case "AddMatch":
		return []*dbus.Message{reply(msg)}
	case "Subscribe":
		s.subscribed = true
		return []*dbus.Message{reply(msg)}
	}
	unit, _ := msg.Body[0].(string)
	s.calls = append(s.calls, method+" "+unit)
	switch {
	case s.hangUps > 0:
		s.hangUps--
		return []*dbus.Message{nil}
	case s.refusal != "":
		return []*dbus.Message{refuse(msg, s.refusal)}
	}
	known := s.units[unit] != nil
	switch method {
	case "StartTransientUnit":
		if known {
			return []*dbus.Message{refuse(msg, "org.freedesktop.systemd1.UnitExists")}
		}
		s.units[unit] = propertiesIn(s.tb, msg.Body[2])
		if s.onStart != nil {
			s.onStart(unit)
		}
		return s.jobLocked(msg, unit)
	case "SetUnitProperties":
		for name, value := range propertiesIn(s.tb, msg.Body[2]) {
			if s.units[unit] == nil {
				s.units[unit] = map[string]any{}
			}
			s.units[unit][name] = value
		}
		return []*dbus.Message{reply(msg)}
	case "StopUnit":
		if !known {
			return []*dbus.Message{refuse(msg, "org.freedesktop.systemd1.NoSuchUnit")}
		}
		delete(s.units, unit)
		return s.jobLocked(msg, unit)
	case "ResetFailedUnit":
		return []*dbus.Message{refuse(msg, "org.freedesktop.systemd1.NoSuchUnit")} // it was not loaded any more
	}
	s.tb.Errorf("systemd was asked to %s", method)
	return []*dbus.Message{refuse(msg, "org.freedesktop.DBus.Error.UnknownMethod")}
}

// jobLocked answers with a job, whose end it tells first: a program must not miss it.
func (s *systemd) jobLocked(msg *dbus.Message, unit string) []*dbus.Message {
	s.jobs++
	job := dbus.ObjectPath(fmt.Sprintf("/org/freedesktop/systemd1/job/%d", s.jobs))
	if !s.subscribed {
		s.tb.Error("systemd tells nobody of the end of jobs: nobody has subscribed")
	}
	if s.mute {
		return []*dbus.Message{reply(msg, job)}
	}
	other := dbus.ObjectPath("/org/freedesktop/systemd1/job/other")
	return []*dbus.Message{
		jobEnd(99, other, "other.service", "failed"), jobEnd(uint32(s.jobs), job, unit, s.result), reply(msg, job),
	}
}

// propertiesIn takes an a(sv) apart.
func propertiesIn(tb testing.TB, body any) map[string]any {
	tb.Helper()
	out := map[string]any{}
	list, ok := body.([][]any)
	if !ok {
		tb.Errorf("properties are a %T, want a list of structures", body)
	}
	for _, p := range list {
		out[p[0].(string)] = p[1].(dbus.Variant).Value()
	}
	return out
}

func jobEnd(id uint32, job dbus.ObjectPath, unit, result string) *dbus.Message {
	return &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/systemd1")),
		dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.systemd1.Manager"),
		dbus.FieldMember:    dbus.MakeVariant("JobRemoved"),
		dbus.FieldSender:    dbus.MakeVariant("org.freedesktop.systemd1"),
		dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(id, job, unit, result)),
	}, Body: []any{id, job, unit, result}}
}

func reply(to *dbus.Message, body ...any) *dbus.Message {
	m := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()),
		dbus.FieldSender:      dbus.MakeVariant("org.freedesktop.systemd1"),
	}, Body: body}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return m
}

func refuse(to *dbus.Message, name string) *dbus.Message {
	m := reply(to, "no")
	m.Type = dbus.TypeError
	m.Headers[dbus.FieldErrorName] = dbus.MakeVariant(name)
	return m
}

func (s *systemd) send(c net.Conn, m *dbus.Message) error {
	var buf bytes.Buffer
	if err := m.EncodeTo(&buf, binary.LittleEndian); err != nil {
		s.tb.Errorf("encode: %v", err)
		return err
	}
	data := buf.Bytes()
	binary.LittleEndian.PutUint32(data[8:], 1) // a serial of zero is not allowed
	_, err := c.Write(data)
	return err
}
