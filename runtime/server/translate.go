package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// The channels of a WebSocket of the protocol v5.channel.k8s.io. A message to closeChannel
// names the channel that ends.
const (
	stdinChannel byte = iota
	stdoutChannel
	stderrChannel
	errorChannel
	resizeChannel
	closeChannel byte = 255
)

// The streams of SPDY, and the protocol in which runtimes speak of them: the first one whose
// error stream ends with a Status.
const (
	streamTypeHeader = "streamType"
	streamV4         = "v4.channel.k8s.io"
)

// maxStatus is how long the last word of a runtime may be.
const maxStatus = 1 << 20

// remote is a command at the runtime, over SPDY. Streams that nobody wants are nil.
type remote struct {
	// up is the connection beneath conn.
	up                    io.Closer
	conn                  httpstream.Connection
	stdout, stderr, final httpstream.Stream
	stdin, resize         input
}

// input is a stream to a command that need not take it: once the command takes no more, what
// comes is dropped, for its output and how it ends are still to come. Only one goroutine
// may use it.
type input struct {
	stream httpstream.Stream
	// over says that nothing more goes to the stream.
	over bool
}

// Write never fails.
func (i *input) Write(b []byte) (int, error) {
	if i.stream != nil && !i.over {
		_, err := i.stream.Write(b)
		i.over = err != nil
	}
	return len(b), nil
}

// end tells the command that nothing more comes.
func (i *input) end() {
	if i.stream != nil && !i.over {
		_ = i.stream.Close() // it takes no more either way
	}
	i.over = true
}

// translate lets a client with a WebSocket of channels speak with a runtime that speaks
// SPDY. As long as the runtime can refuse the client is answered in HTTP.
func (s *Server) translate(w http.ResponseWriter, r *http.Request, to *url.URL, opts StreamOptions) {
	up, err := s.upgrade(r.Context(), http.MethodPost, to, http.Header{
		"Connection": {"Upgrade"}, "Upgrade": {spdyUpgrade}, streamProtocol: {streamV4},
	})
	if err != nil {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	if up.answer.StatusCode != http.StatusSwitchingProtocols {
		up.refuse(w)
		return
	}
	cmd, err := newRemote(up, opts)
	if err != nil {
		up.Close()
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	defer cmd.close()
	socket, err := s.newWebSocket(w, r, channelsV5)
	if err != nil {
		s.log.Debug("client did not get its WebSocket", "err", err)
		return
	}
	defer socket.close()
	s.connect(r.Context(), socket, cmd)
}

// hangUp closes the connection beneath. It waits for nothing.
func (c *remote) hangUp() {
	_ = c.up.Close() // it is over either way
}

// close ends the connection, with whatever moves on it. The connection beneath goes first:
// to end the streams in order a frame has to be written, which waits for the write in
// progress, and that one for a runtime that does not read.
func (c *remote) close() {
	c.hangUp()
	_ = c.conn.Close() // it is over either way
}

// newRemote opens the streams that a client wants. The error stream comes first, so that
// whatever goes wrong is told.
func newRemote(up *upgraded, opts StreamOptions) (*remote, error) {
	if got := up.answer.Header.Get(streamProtocol); got != streamV4 {
		return nil, fmt.Errorf("the runtime's streaming server speaks %q, want %s", got, streamV4)
	}
	conn, err := spdy.NewClientConnection(up)
	if err != nil {
		return nil, fmt.Errorf("begin SPDY with the runtime's streaming server: %w", err)
	}
	c := &remote{up: up, conn: conn}
	for _, st := range []struct {
		name   string
		wanted bool
		to     *httpstream.Stream
	}{
		{"error", true, &c.final},
		{"stdin", opts.Stdin, &c.stdin.stream},
		{"stdout", opts.Stdout, &c.stdout},
		{"stderr", opts.Stderr, &c.stderr},
		{"resize", opts.TTY, &c.resize.stream},
	} {
		if !st.wanted {
			continue
		}
		if *st.to, err = conn.CreateStream(http.Header{streamTypeHeader: {st.name}}); err != nil {
			c.close()
			return nil, fmt.Errorf("open stream %s at the runtime: %w", st.name, err)
		}
	}
	return c, nil
}

// connect moves everything until the command has ended and all of it has been said, or until
// the client has gone.
func (s *Server) connect(ctx context.Context, socket *webSocket, cmd *remote) {
	end := sync.OnceFunc(func() { cmd.hangUp(); socket.close(); cmd.close() })
	defer end()
	defer context.AfterFunc(ctx, end)()
	idle := time.AfterFunc(s.limits.StreamIdle, end)
	defer idle.Stop()
	moved := func() { idle.Reset(s.limits.StreamIdle) }
	to := func(number byte) channel { return channel{socket, number, moved} }

	var wg, output sync.WaitGroup
	if err := greet(socket, cmd); err != nil {
		return
	}
	if cmd.stdout != nil {
		output.Go(func() { _, _ = io.Copy(to(stdoutChannel), cmd.stdout) })
	}
	if cmd.stderr != nil {
		output.Go(func() { _, _ = io.Copy(to(stderrChannel), cmd.stderr) })
	}
	wg.Go(func() {
		final := lastWord(cmd.final)
		output.Wait()
		if _, err := to(errorChannel).Write(final); err != nil {
			end()
			return
		}
		cmd.hangUp() // what the client still sends is for nobody
		socket.bye() // receive waits for its answer
	})
	wg.Go(func() {
		if err := receive(socket, cmd, moved); err != nil {
			s.log.Debug("client of a stream broke off", "err", err)
		}
		end()
	})
	wg.Wait()
}

// greet sends an empty message, which tells a client that its streams are there.
func greet(socket *webSocket, cmd *remote) error {
	switch {
	case cmd.stdout != nil:
		return socket.send(stdoutChannel, nil)
	case cmd.stderr != nil:
		return socket.send(stderrChannel, nil)
	}
	return socket.send(errorChannel, nil)
}

// lastWord reads how a command ended: a Status in JSON.
func lastWord(final io.Reader) []byte {
	text, err := io.ReadAll(io.LimitReader(final, maxStatus))
	if len(text) > 0 {
		return text
	}
	if err == nil {
		err = io.ErrUnexpectedEOF
	}
	st := metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: fmt.Sprintf("the runtime did not say how the command ended: %v", err),
	}
	text, _ = json.Marshal(st) // a Status can always be encoded
	return text
}

// receive takes what the client sends until it ends.
func receive(socket *webSocket, cmd *remote, moved func()) error {
	for {
		_, message, err := socket.conn.NextReader()
		if err != nil {
			if err = ended(err); errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		moved()
		if err := cmd.take(message); err != nil {
			return err
		}
		moved()
	}
}

// take hands a message on to the stream that it is for. Messages for streams that nobody
// wanted or that have ended are dropped. Its errors are those of the client's connection.
func (c *remote) take(message io.Reader) error {
	var head [1]byte
	if _, err := io.ReadFull(message, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil // an empty message says nothing
		}
		return err
	}
	to := io.Discard
	switch head[0] {
	case closeChannel:
		return c.closeStream(message)
	case stdinChannel:
		to = &c.stdin
	case resizeChannel:
		to = &c.resize
	}
	_, err := io.Copy(to, message)
	return err
}

// closeStream ends the stream that a message names.
func (c *remote) closeStream(message io.Reader) error {
	var which [2]byte
	n, err := io.ReadFull(message, which[:])
	if n != 1 {
		return fmt.Errorf("a message that closes a channel has to name one, this has %d bytes more (%w)", n, err)
	}
	switch which[0] {
	case stdinChannel:
		c.stdin.end()
	case resizeChannel:
		c.resize.end()
	}
	return nil
}
