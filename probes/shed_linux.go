package probes

import (
	"net"
	"syscall"
)

// shed makes the Close that follows leave no TIME_WAIT on either side, unless both
// sides close in the same moment.
//
// The side that sends the first FIN keeps the socket in TIME_WAIT for a minute,
// unless the connection is reset before the other side's FIN is there. So when the
// peer has not closed yet, the stream is ended, of which the peer reads the end,
// and reset at once; when it has, a reset spares the peer its TIME_WAIT. A
// lingering time of zero makes close(2) send the reset, see socket(7). Errors mean
// that the socket is gone already.
func shed(c *net.TCPConn) {
	ended := endOfStream(c)
	_ = c.SetLinger(0)
	if !ended {
		_ = c.CloseWrite()
	}
}

// endOfStream reports whether the peer has closed its side and nothing is left
// to read. It does not block.
func endOfStream(c *net.TCPConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	var end bool
	_ = raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		end = n == 0 && err == nil
	})
	return end
}
