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

// pipe moves bytes between two connections until one of them ends, nothing has moved for the
// time of Limits.StreamIdle, or ctx ends. It closes both.
func (s *Server) pipe(ctx context.Context, a, b io.ReadWriteCloser) {
	end := sync.OnceFunc(func() { a.Close(); b.Close() })
	defer end()
	defer context.AfterFunc(ctx, end)()
	idle := time.AfterFunc(s.limits.StreamIdle, end)
	defer idle.Stop()
	moved := func() { idle.Reset(s.limits.StreamIdle) }
	var wg sync.WaitGroup
	wg.Go(func() { copyAll(a, b, moved); end() })
	wg.Go(func() { copyAll(b, a, moved); end() })
	wg.Wait()
}

// copyAll copies until one of the two ends. Why does not matter: either way the stream is
// over for both.
func copyAll(dst io.Writer, src io.Reader, moved func()) {
	buf := make([]byte, smallBuffer)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			moved()
			if _, err := dst.Write(buf[:n]); err != nil {
				return
			}
			moved()
		}
		if err != nil {
			return
		}
		if n == len(buf) && n < largeBuffer {
			buf = make([]byte, largeBuffer)
		} else if n < smallBuffer/2 && len(buf) > smallBuffer {
			buf = make([]byte, smallBuffer)
		}
	}
}
