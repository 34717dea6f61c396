package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// The protocols of WebSockets that are translated here
// (https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets).
const (
	channelsV5   = "v5.channel.k8s.io"
	tunnelPrefix = "SPDY/3.1+"
	tunnelSuffix = ".k8s.io"
)

// closeTime is how long a client may take for the last message, and to close after it.
const closeTime = 10 * time.Second

// tunnelProtocols returns which protocols of SPDY a client wants to speak inside a
// WebSocket; none: it wants something else.
func tunnelProtocols(r *http.Request) []string {
	if !isWebSocket(r) {
		return nil
	}
	var inner []string
	for _, p := range websocket.Subprotocols(r) {
		if strings.HasPrefix(p, tunnelPrefix) && strings.HasSuffix(p, tunnelSuffix) {
			inner = append(inner, strings.TrimPrefix(p, tunnelPrefix))
		}
	}
	return inner
}

// newWebSocket upgrades the client's connection, or answers why not. The protocols are those
// that the server speaks.
func (s *Server) newWebSocket(w http.ResponseWriter, r *http.Request, protocols ...string) (*webSocket, error) {
	upgrader := websocket.Upgrader{
		HandshakeTimeout: closeTime,
		WriteBufferSize:  largeBuffer + 1024, // a whole message goes into one frame
		WriteBufferPool:  &s.frames,
		Subprotocols:     protocols,
		// Who may is decided by what a client proves, and no browser sends that by itself.
		CheckOrigin: func(*http.Request) bool { return true },
	}
	conn, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, err
	}
	return &webSocket{conn: conn}, nil
}

// webSocket is the client's.
type webSocket struct {
	conn *websocket.Conn
	// mu is held while a message is written.
	mu sync.Mutex
	// reader is the rest of the message that Read reads; nil between two.
	reader io.Reader
}

// Read reads the messages as one stream. Only one goroutine may.
func (c *webSocket) Read(b []byte) (int, error) {
	for {
		if c.reader == nil {
			_, next, err := c.conn.NextReader()
			if err != nil {
				return 0, ended(err)
			}
			c.reader = next
		}
		n, err := c.reader.Read(b)
		if errors.Is(err, io.EOF) {
			c.reader, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// Write sends a message.
func (c *webSocket) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.conn.WriteMessage(websocket.BinaryMessage, b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Close ends the connection without a word.
func (c *webSocket) Close() error { return c.conn.Close() }

// close is Close for those whom its error does not help.
func (c *webSocket) close() {
	_ = c.conn.Close() // it is over either way
}

// bye implements client.
func (c *webSocket) bye() {
	message := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	_ = c.conn.WriteControl(websocket.CloseMessage, message, time.Now().Add(closeTime)) // it may have gone
	_ = c.conn.SetReadDeadline(time.Now().Add(closeTime))
}

// send sends a message to a channel.
func (c *webSocket) send(channel byte, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, err := c.conn.NextWriter(websocket.BinaryMessage)
	if err != nil {
		return err
	}
	if _, err := w.Write([]byte{channel}); err != nil {
		return err
	}
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Close()
}

// channel is one direction of a WebSocket of channels.
type channel struct {
	socket *webSocket
	number byte
	moved  func()
}

// Write sends b in messages that go into one frame each.
func (c channel) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, largeBuffer) {
		c.moved()
		if err := c.socket.send(c.number, part); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// ended makes the end that a client announces a plain end.
func ended(err error) error {
	if websocket.IsCloseError(err, websocket.CloseNormalClosure, websocket.CloseGoingAway, websocket.CloseNoStatusReceived) {
		return io.EOF
	}
	return err
}
