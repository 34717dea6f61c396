package server

import (
	"context"
	"io"
	"sync"
	"time"
)

// The buffers of a stream. Most streams wait for somebody to type and need little; those
// that move much get more while they do.
const (
	smallBuffer = 4 << 10
	largeBuffer = 32 << 10
)

// client is the connection of a client, whatever it speaks.
type client interface {
	io.ReadWriteCloser
	// bye tells the client that all has been said, and lets reading go on for closeTime:
	// to close a connection with bytes that nobody has read resets it, and what the client
	// has not received by then is lost.
	bye()
}

// pipe moves bytes between a client and the runtime until one of them ends, nothing has moved
// for the time of Limits.StreamIdle, or ctx ends. What the runtime says to its end reaches
// the client. It closes both.
func (s *Server) pipe(ctx context.Context, c client, up io.ReadWriteCloser) {
	end := sync.OnceFunc(func() { c.Close(); up.Close() })
	defer end()
	defer context.AfterFunc(ctx, end)()
	idle := time.AfterFunc(s.limits.StreamIdle, end)
	defer idle.Stop()
	moved := func() { idle.Reset(s.limits.StreamIdle) }
	var wg sync.WaitGroup
	wg.Go(func() {
		if copyAll(up, c, moved) != nil {
			_, _ = io.Copy(io.Discard, c) // the runtime takes no more, and may have more to say
		}
		end()
	})
	wg.Go(func() {
		if copyAll(c, up, moved) != nil {
			end()
			return
		}
		up.Close() // what the client still sends is for nobody
		c.bye()
	})
	wg.Wait()
}

// copyAll copies until one of the two ends: with an error if that is dst. Why src ends does
// not matter.
func copyAll(dst io.Writer, src io.Reader, moved func()) error {
	buf := make([]byte, smallBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			moved()
			if _, err := dst.Write(buf[:n]); err != nil {
				return err
			}
			moved()
		}
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		if n == len(buf) && n < largeBuffer {
			buf = make([]byte, largeBuffer)
		} else if n < smallBuffer/2 && len(buf) > smallBuffer {
			buf = make([]byte, smallBuffer)
		}
	}
}
