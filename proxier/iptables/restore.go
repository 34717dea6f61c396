package iptables

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

// lockSeconds is how long one command waits for the lock of iptables, as kube-proxy's.
const lockSeconds = "5"

// restore runs iptables-restore with the script of s, if there is something to do.
func (b *Backend) restore(ctx context.Context, f proxier.Family, s *ruleset) (Restore, error) {
	r := Restore{Family: f, Total: s.total.plus(s.fixed.counts()), Written: s.script.written()}
	text := s.script.assemble()
	if text == nil {
		return r, nil
	}
	begin := time.Now()
	before, err := b.feed(ctx, f, text)
	r.Err, r.Took = err, time.Since(begin)
	if e, ok := errors.AsType[*RestoreError](r.Err); ok && !e.Locked {
		s.script.locate(e, before)
	}
	s.script.release()
	return r, r.Err
}

// feed has iptables-restore take a script. After an error, before is how many lines of it
// came before those of the run that failed.
func (b *Backend) feed(ctx context.Context, f proxier.Family, text []byte) (before int, err error) {
	for one := range runs(b.programs[f].variant, text) {
		if err := b.feedOne(ctx, f, one); err != nil {
			return before, err
		}
		before += bytes.Count(one, []byte(newline))
	}
	return 0, nil
}

// runs divides a script into what one iptables-restore each is to take. iptables-legacy gets
// its lock anew for each table, and may fail to for the second one: what was done with the
// first would be refused when it came again with a retry. iptables-nft has no lock.
func runs(v Variant, text []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			end := len(text)
			if i := bytes.Index(text, []byte(newline+commit)); i >= 0 && v != NFT {
				end = i + len(newline+commit)
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

// feedOne runs iptables-restore until it gets the lock, or LockWait is over. The lock is one for
// both families: they take turns, and do not wait for each other in vain.
func (b *Backend) feedOne(ctx context.Context, f proxier.Family, text []byte) error {
	if b.programs[f].variant != NFT {
		select {
		case b.turn <- struct{}{}:
			defer func() { <-b.turn }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c := Command{
		Name: b.programs[f].restore, Args: []string{"-w", lockSeconds, "--noflush", "--counters"}, Stdin: text,
	}
	for begin := time.Now(); ; {
		r, err := b.exec.Run(ctx, c)
		if err != nil || r.Status == 0 {
			return err
		}
		said := parseComplaint(r)
		failed := &RestoreError{Command: c.Name, Status: r.Status, Line: said.line, Message: said.message, Locked: said.locked, Denied: said.denied}
		if !said.locked || time.Since(begin) >= b.cfg.LockWait {
			return failed
		}
		b.cfg.Log.Warn("another program holds the lock of iptables", "command", c.Name, "waited", time.Since(begin))
		if !sleep(ctx, jitter()) {
			return errors.Join(failed, context.Cause(ctx))
		}
	}
}

// jitter is a pause that keeps programs which wait for the same lock apart.
func jitter() time.Duration { return 50*time.Millisecond + rand.N(450*time.Millisecond) }

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// chainInMessage finds the name of a chain of the Backend.
var chainInMessage = regexp.MustCompile(`KUBE-[A-Z0-9-]+`)

// locate fills in the line that e is about, and whose it is. It is that of a run which got
// the lines after the first ones.
func (s *script) locate(e *RestoreError, first int) {
	if e.Line > 0 {
		e.Text, e.Key = s.at(first + e.Line)
	}
	if e.Key != (proxier.Key{}) {
		return
	}
	// iptables-nft finds out at the end of a table that a chain is not there.
	name := chainInMessage.FindString(e.Message)
	if name == "" || e.Text+"\n" != commit {
		return
	}
	n := 0
	for l := range bytes.Lines(s.buf) {
		if n++; bytes.HasSuffix(l, []byte(" "+name+"\n")) {
			e.Line = n
			e.Text, e.Key = s.at(n)
			return
		}
	}
}
