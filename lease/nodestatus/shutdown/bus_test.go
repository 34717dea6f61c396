package shutdown_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// bus is a system bus with a logind and a systemd on it, which speaks the protocol of
// D-Bus on a socket.
type bus struct {
	tb       testing.TB
	path     string
	listener *net.UnixListener
	wg       sync.WaitGroup

	mu sync.Mutex // guards the fields below
	// delay is how long logind waits, in microseconds; reload is what it is after it was
	// told to read its configuration.
	delay, reload uint64
	// preparing is the property PreparingForShutdown.
	preparing bool
	conns     []*net.UnixConn
	// locks are logind's ends of the inhibitors.
	locks []*os.File
	calls []string
}

func newBus(t *testing.T, delay time.Duration) *bus {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bus")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	b := &bus{tb: t, path: path, listener: l, delay: uint64(delay.Microseconds())}
	b.wg.Go(func() {
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			b.set(func(b *bus) { b.conns = append(b.conns, c) })
			b.wg.Go(func() { b.serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		b.hangUp()
		b.wg.Wait()
		for _, f := range b.locks {
			_ = f.Close()
		}
	})
	return b
}

// connect is LogindConfig.Connect.
func (b *bus) connect(ctx context.Context) (*dbus.Conn, error) {
	return dbus.Connect("unix:path="+b.path, dbus.WithContext(ctx))
}

func (b *bus) set(change func(*bus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// hangUp ends all connections.
func (b *bus) hangUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.conns {
		_ = c.Close()
	}
	b.conns = nil
}

// serve is one connection: the words of the authentication, then messages.
func (b *bus) serve(c *net.UnixConn) {
	defer c.Close()
	r := bufio.NewReader(c)
	if _, err := r.ReadByte(); err != nil {
		return
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch word := strings.Fields(line); {
		case len(word) == 0:
			return
		case word[0] == "AUTH" && len(word) == 1:
			_, err = c.Write([]byte("REJECTED EXTERNAL\r\n"))
		case word[0] == "AUTH":
			_, err = c.Write([]byte("OK 0123456789abcdef0123456789abcdef\r\n"))
		case word[0] == "NEGOTIATE_UNIX_FD":
			_, err = c.Write([]byte("AGREE_UNIX_FD\r\n"))
		case word[0] == "BEGIN":
			b.messages(c, r)
			return
		}
		if err != nil {
			return
		}
	}
}

func (b *bus) messages(c *net.UnixConn, r *bufio.Reader) {
	for {
		msg, err := dbus.DecodeMessage(r)
		if err != nil {
			return
		}
		if msg.Type == dbus.TypeMethodCall {
			b.answer(c, msg)
		}
	}
}

// answer does what a call asks for.
func (b *bus) answer(c *net.UnixConn, msg *dbus.Message) {
	member, _ := msg.Headers[dbus.FieldMember].Value().(string)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch member {
	case "Hello":
		b.send(c, reply(msg, ":1.1"), nil)
	case "Get":
		property, _ := msg.Body[1].(string)
		value := dbus.MakeVariant(b.preparing)
		if property == "InhibitDelayMaxUSec" {
			value = dbus.MakeVariant(b.delay)
		}
		b.send(c, reply(msg, value), nil)
	case "Inhibit":
		b.calls = append(b.calls, strings.Join([]string{"Inhibit", msg.Body[0].(string), msg.Body[3].(string)}, " "))
		if b.preparing {
			b.send(c, refusal(msg), nil)
			return
		}
		near, far, err := os.Pipe()
		if err != nil {
			b.tb.Error(err)
			return
		}
		b.locks = append(b.locks, near)
		b.send(c, reply(msg, dbus.UnixFD(0)), far)
		_ = far.Close()
	case "KillUnit":
		b.calls = append(b.calls, "KillUnit "+msg.Body[0].(string))
		b.delay = b.reload
		b.send(c, reply(msg), nil)
	default:
		b.send(c, reply(msg), nil)
	}
}

func reply(to *dbus.Message, body ...any) *dbus.Message {
	m := &dbus.Message{Type: dbus.TypeMethodReply, Headers: map[dbus.HeaderField]dbus.Variant{
		dbus.FieldReplySerial: dbus.MakeVariant(to.Serial()),
		dbus.FieldSender:      dbus.MakeVariant("org.freedesktop.login1"),
	}, Body: body}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	return m
}

func refusal(to *dbus.Message) *dbus.Message {
	m := reply(to, "already running")
	m.Type = dbus.TypeError
	m.Headers[dbus.FieldErrorName] = dbus.MakeVariant("org.freedesktop.login1.OperationInProgress")
	return m
}

// send writes a message, perhaps with a file.
func (b *bus) send(c *net.UnixConn, m *dbus.Message, file *os.File) {
	if file != nil {
		m.Headers[dbus.FieldUnixFDs] = dbus.MakeVariant(uint32(1))
	}
	var buf bytes.Buffer
	if err := m.EncodeTo(&buf, binary.LittleEndian); err != nil {
		b.tb.Errorf("encode: %v", err)
		return
	}
	data := buf.Bytes()
	binary.LittleEndian.PutUint32(data[8:], 1) // a serial of zero is not allowed
	var rights []byte
	if file != nil {
		rights = syscall.UnixRights(int(file.Fd()))
	}
	_, _, _ = c.WriteMsgUnix(data, rights, nil) // the other end may be gone
}

// prepare sends the signal PrepareForShutdown to all connections.
func (b *bus) prepare(down bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.preparing = down
	for _, c := range b.conns {
		b.send(c, &dbus.Message{Type: dbus.TypeSignal, Headers: map[dbus.HeaderField]dbus.Variant{
			dbus.FieldPath:      dbus.MakeVariant(dbus.ObjectPath("/org/freedesktop/login1")),
			dbus.FieldInterface: dbus.MakeVariant("org.freedesktop.login1.Manager"),
			dbus.FieldMember:    dbus.MakeVariant("PrepareForShutdown"),
			dbus.FieldSender:    dbus.MakeVariant("org.freedesktop.login1"),
			dbus.FieldSignature: dbus.MakeVariant(dbus.SignatureOf(true)),
		}, Body: []any{down}}, nil)
	}
}

// released waits until the holder of an inhibitor has given it back: then a read ends.
func (b *bus) released(i int, patience time.Duration) bool {
	b.mu.Lock()
	f := b.locks[i]
	b.mu.Unlock()
	_ = f.SetReadDeadline(time.Now().Add(patience))
	_, err := f.Read(make([]byte, 1))
	return err != nil && !os.IsTimeout(err)
}

// awaitCalls waits until there were n calls.
func (b *bus) awaitCalls(n int) {
	b.tb.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); len(b.log()) < n; <-tick.C {
		if time.Now().After(deadline) {
			b.tb.Fatalf("%d calls within %s, want %d", len(b.log()), patience, n)
		}
	}
}

func (b *bus) log() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.calls...)
}
