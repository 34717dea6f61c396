package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"
	"k8s.io/streaming/pkg/httpstream"
)

var errBroken = errors.New("broken pipe")

// talk is a runtime's side of a stream: what it says once it is let to, until it is closed.
type talk struct {
	says string
	// from is closed when it may begin.
	from   chan struct{}
	closed chan struct{}
	close  func()
	// write is what becomes of what it is told.
	write func([]byte) error
}

func newTalk(says string, write func([]byte) error) *talk {
	t := &talk{says: says, from: make(chan struct{}), closed: make(chan struct{}), write: write}
	t.close = sync.OnceFunc(func() { close(t.closed) })
	return t
}

func (t *talk) Read(b []byte) (int, error) {
	select {
	case <-t.from:
	case <-t.closed:
		return 0, io.EOF
	}
	if t.says == "" {
		return 0, io.EOF
	}
	n := copy(b, t.says)
	t.says = t.says[n:]
	return n, nil
}

func (t *talk) Write(b []byte) (int, error) {
	if err := t.write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (t *talk) Close() error         { t.close(); return nil }
func (t *talk) Reset() error         { return t.Close() }
func (t *talk) Headers() http.Header { return nil }
func (t *talk) Identifier() uint32   { return 0 }

// talks are a connection to a runtime.
type talks struct {
	httpstream.Connection
	streams []*talk
}

func (c talks) Close() error {
	for _, t := range c.streams {
		t.close()
	}
	return nil
}

// taken is the connection of an HTTP request that is taken over.
type taken struct {
	http.ResponseWriter
	conn net.Conn
}

func (h taken) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return h.conn, bufio.NewReadWriter(bufio.NewReader(h.conn), bufio.NewWriter(h.conn)), nil
}

// socketPair returns the two ends of a WebSocket without a network.
func socketPair(t *testing.T) (*webSocket, *websocket.Conn) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { here.Close(); there.Close() })
	socket := &webSocket{}
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := http.ReadRequest(bufio.NewReader(here))
		if err != nil {
			t.Error(err)
			return
		}
		var up websocket.Upgrader
		if socket.conn, err = up.Upgrade(taken{httptest.NewRecorder(), here}, r, nil); err != nil {
			t.Error(err)
		}
	})
	d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) { return there, nil }}
	c, resp, err := d.DialContext(t.Context(), "ws://node", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	wg.Wait()
	return socket, c
}

// command is a command at a runtime, and a client that is connected with it.
type command struct {
	stdin, resize, stdout, final *talk
	client                       *websocket.Conn
	// ended is closed when the client is not served any more.
	ended chan struct{}
}

func connected(t *testing.T, c *command) {
	t.Helper()
	s, err := New(Config{Protect: Open})
	if err != nil {
		t.Fatal(err)
	}
	var socket *webSocket
	socket, c.client = socketPair(t)
	up, _ := net.Pipe()
	cmd := &remote{
		up: up, conn: talks{streams: []*talk{c.stdin, c.resize, c.stdout, c.final}},
		stdin: input{stream: c.stdin}, resize: input{stream: c.resize}, stdout: c.stdout, final: c.final,
	}
	c.ended = make(chan struct{})
	go func() { defer close(c.ended); s.connect(t.Context(), socket, cmd) }()
}

// send sends a message to a channel.
func (c *command) send(t *testing.T, channel byte, text string) {
	t.Helper()
	if err := c.client.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...)); err != nil {
		t.Fatalf("send %q to channel %d: %v", text, channel, err)
	}
}

// hear returns what the client is told until the server says that this was all.
func (c *command) hear(t *testing.T) []string {
	t.Helper()
	var said []string
	for {
		_, m, err := c.client.ReadMessage()
		if websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			return said
		}
		if err != nil {
			t.Fatalf("after %q: %v, want to be told that this was all", said, err)
		}
		if len(m) > 1 {
			said = append(said, string(m))
		}
	}
}

// A command that takes no more input still has output and an end.
func TestOutputOfACommandThatTakesNoInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &command{
			stdin:  newTalk("", func([]byte) error { return errBroken }),
			stdout: newTalk("last output", nil),
			final:  newTalk(`{"status":"Success"}`, nil),
		}
		c.resize = newTalk("", func([]byte) error {
			close(c.stdout.from)
			close(c.final.from)
			return errBroken
		})
		connected(t, c)
		if _, m, err := c.client.ReadMessage(); err != nil || string(m) != "\x01" {
			t.Fatalf("the first message is %q (%v)", m, err)
		}
		c.send(t, stdinChannel, "nobody reads this")
		c.send(t, resizeChannel, "nor that") // after which the command ends
		if diff := cmp.Diff([]string{"\x01last output", "\x03" + `{"status":"Success"}`}, c.hear(t)); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
		<-c.ended
	})
}

// A connection ends when the client has seen all, or has had its time for that: until then
// what it sends is read, else TCP would take back what it has not received yet.
func TestLastWordsAreReceived(t *testing.T) {
	end := func(t *testing.T) *command {
		t.Helper()
		c := &command{resize: newTalk("", nil), stdin: newTalk("", func([]byte) error { return errBroken }), stdout: newTalk("", nil), final: newTalk("end", nil)}
		close(c.stdout.from)
		close(c.final.from)
		connected(t, c)
		c.client.SetCloseHandler(func(int, string) error { return nil }) // it takes its time
		if diff := cmp.Diff([]string{"\x03end"}, c.hear(t)); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
		return c
	}
	t.Run("the client answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := end(t)
			c.send(t, stdinChannel, "this was on its way")
			synctest.Wait()
			select {
			case <-c.ended:
				t.Fatal("the connection ended before the client")
			default:
			}
			message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
			if err := c.client.WriteControl(websocket.CloseMessage, message, time.Now().Add(time.Second)); err != nil {
				t.Fatal(err)
			}
			<-c.ended
		})
	})
	t.Run("the client does not", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := end(t)
			began := time.Now()
			<-c.ended
			if took := time.Since(began); took != closeTime {
				t.Errorf("the connection ended after %s, want %s", took, closeTime)
			}
		})
	})
}

// halves is a connection whose ends can be told apart.
type halves struct {
	net.Conn
	// said is closed when nothing more is said.
	said chan struct{}
}

func (h *halves) CloseWrite() error {
	close(h.said)
	return nil
}

// What a runtime says reaches the client also when it takes no more, and before the
// connection ends.
func TestPipeDeliversTheEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		// closes says that the client ends its side once it knows that this was all.
		closes bool
		want   time.Duration
	}{{"the client closes", true, 0}, {"the client does not", false, closeTime}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := New(Config{Protect: Open})
				if err != nil {
					t.Fatal(err)
				}
				here, there := net.Pipe()
				defer there.Close()
				conn := &halves{Conn: here, said: make(chan struct{})}
				up := newTalk("last words", func([]byte) error { return errBroken })
				ended := make(chan struct{})
				go func() { defer close(ended); s.pipe(t.Context(), &hijacked{Conn: conn}, up) }()
				for _, text := range []string{"nobody reads this", "nor that"} {
					if _, err := io.WriteString(there, text); err != nil {
						t.Fatalf("send %q: %v", text, err)
					}
				}
				synctest.Wait()
				close(up.from)
				said := make([]byte, len("last words"))
				if _, err := io.ReadFull(there, said); err != nil || string(said) != "last words" {
					t.Errorf("the client got %q (%v)", said, err)
				}
				<-conn.said
				if _, err := io.WriteString(there, "this was on its way"); err != nil {
					t.Errorf("the connection ended before the client: %v", err)
				}
				began := time.Now()
				if tt.closes {
					there.Close()
				}
				<-ended
				if took := time.Since(began); took != tt.want {
					t.Errorf("the connection ended after %s, want %s", took, tt.want)
				}
			})
		})
	}
}
