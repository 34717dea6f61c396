package netnstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Probes ask a virtual address again and again. Servers answer with something.
type Probes struct {
	// From is the namespace of the client.
	From *NS
	// Networks are "tcp" and "udp": each has a client of its own.
	Networks []string
	// Virtual is the address and port that is probed. Direct is one that no rule
	// touches, and is asked at the same time.
	Virtual, Direct string
	// Patience is how long an answer is waited for; zero is a minute. A lost datagram never
	// comes, and one that a busy machine delays does.
	Patience time.Duration

	pauses *pauses
}

// patience is Patience where it is not set.
const patience = time.Minute

// Slow is the round trip of a handshake from which on it counts as a loss. A lost SYN
// is sent again after a second (RFC 6298).
const Slow = 900 * time.Millisecond

// Start probes until the function it returns is called, and once at least. That fails the test for each
// connection whose handshake took Slow or longer, for each that was refused or sent
// its first packet twice, and for each datagram without an answer. What the rules are not
// the cause of does not count: the direct probe at the same time met the same, or the machine
// stood still meanwhile for so long that the kernel sent a packet again which was not lost.
func (p Probes) Start(tb testing.TB) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	results := make([]probed, len(p.Networks))
	var wg sync.WaitGroup
	p.pauses = &pauses{}
	wg.Go(func() { p.pauses.watch(ctx) })
	for i, network := range p.Networks {
		wg.Go(func() {
			for p.pair(network, &results[i]); ctx.Err() == nil; {
				p.pair(network, &results[i])
			}
		})
	}
	return func() {
		tb.Helper()
		cancel()
		wg.Wait()
		for i, r := range results {
			if r.stalls > 0 {
				tb.Logf("%s: %d of %d probes tell nothing: the direct one was lost, too, or the machine stood still", p.Networks[i], r.stalls, r.pairs)
			}
			if len(r.lost) > 0 {
				tb.Errorf("%s: %d of %d probes were lost: %v", p.Networks[i], len(r.lost), r.pairs, r.lost[:min(3, len(r.lost))])
			}
		}
	}
}

// probed counts pairs of probes.
type probed struct {
	pairs, stalls int
	lost          []error
}

// pair makes one probe and a direct one at the same time.
func (p Probes) pair(network string, r *probed) {
	direct := make(chan error, 1)
	go func() { direct <- p.probe(network, p.Direct) }()
	begin := time.Now()
	err := p.probe(network, p.Virtual)
	end := time.Now()
	control := <-direct
	r.pairs++
	switch {
	case err == nil:
	case control != nil, errors.Is(err, errLate) && p.pauses.within(begin, end) >= Slow/2:
		r.stalls++
	default:
		r.lost = append(r.lost, fmt.Errorf("at %s: %w", begin.Format("15:04:05.000"), err))
	}
}

// probe makes one connection or sends one datagram, and waits for the answer.
func (p Probes) probe(network, addr string) error {
	limit := cmp.Or(p.Patience, patience)
	c, err := p.From.Dial(network, addr, limit)
	if err != nil {
		return err
	}
	defer c.Close()
	var late error
	if t, ok := c.(*net.TCPConn); ok {
		late = handshake(t)
	} else if _, err := io.WriteString(c, "?"); err != nil {
		return err
	}
	if err := c.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	if _, err := c.Read(make([]byte, 64)); err != nil {
		return err
	}
	return late
}

// errLate says that an answer came, and late.
var errLate = errors.New("it was answered late")

// handshake returns an error if the kernel says that the handshake was slow: how long
// this process waits for a CPU is not in it.
func handshake(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var info *unix.TCPInfo
	var got error
	if err := raw.Control(func(fd uintptr) {
		info, got = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	}); err != nil {
		return err
	}
	if got != nil {
		return fmt.Errorf("TCP_INFO: %w", got)
	}
	if info.Total_retrans > 0 {
		return fmt.Errorf("%w: %d packets were sent again", errLate, info.Total_retrans)
	}
	if rtt := time.Duration(info.Rtt) * time.Microsecond; rtt >= Slow {
		return fmt.Errorf("%w: the handshake took %v", errLate, rtt)
	}
	return nil
}
