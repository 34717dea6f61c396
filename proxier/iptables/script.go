package iptables

import (
	"bytes"

	"github.com/nodekit-go/nodekit/proxier"
)

const newline = "\n"

// part is a run of lines of a script, and whose they are.
type part struct {
	buf    []byte
	lines  int
	owners []owner
}

// owner says that the lines from one on belong to a ServicePort, or with the zero key
// to none.
type owner struct {
	line int // counts from 0
	key  proxier.Key
}

func (p *part) reset() { p.buf, p.lines, p.owners = p.buf[:0], 0, p.owners[:0] }

// own says whose the next lines are.
func (p *part) own(k proxier.Key) {
	if n := len(p.owners); n > 0 && p.owners[n-1].key == k {
		return
	}
	p.owners = append(p.owners, owner{p.lines, k})
}

// write appends whole lines.
func (p *part) write(text []byte) {
	p.buf = append(p.buf, text...)
	p.lines += bytes.Count(text, []byte(newline))
}

// append appends the lines of another part.
func (p *part) append(o *part) {
	for _, w := range o.owners {
		p.owners = append(p.owners, owner{p.lines + w.line, w.key})
	}
	p.buf = append(p.buf, o.buf...)
	p.lines += o.lines
}

// as appends a rule, "-A CHAIN …", with another command in the place of -A.
func (p *part) as(command byte, rule []byte) {
	p.buf = append(append(p.buf, '-', command), rule[len("-A"):]...)
	p.lines++
}

// declare appends the line that makes a chain, or empties it.
func (p *part) declare(name []byte) {
	p.buf = append(append(append(p.buf, ':'), name...), " - [0:0]\n"...)
	p.lines++
}

// drop appends the line that removes a chain.
func (p *part) drop(name []byte) {
	p.buf = append(append(append(p.buf, "-X "...), name...), '\n')
	p.lines++
}

// ownerOf returns whose a line is, counted from 0.
func (p *part) ownerOf(line int) proxier.Key {
	var k proxier.Key
	for _, o := range p.owners {
		if o.line > line {
			break
		}
		k = o.key
	}
	return k
}

// stage is when lines have to be written, within a table.
type stage uint8

const (
	chains  stage = iota // chains that are made, or emptied
	deletes              // rules that go
	rules                // rules of chains that have been emptied
	inserts              // rules at the head of their chain
	drops                // chains that go, once nothing leads to them
	stages               // their number
)

// script is the input of one iptables-restore.
type script struct {
	parts [3][stages]part // by table, as tables() has them
	// shared are deletes and inserts in shared chains. They are apart, because the
	// whole chain may be written in their place.
	shared [sharedChains][stages]part
	buf    []byte
}

// part returns the lines of a table for a stage.
func (s *script) part(name tableName, st stage) *part {
	for i, t := range tables() {
		if t == name {
			return &s.parts[i][st]
		}
	}
	return nil // there are no others
}

// inOrder calls f for all parts of a table in the order in which they are written.
func (s *script) inOrder(table int, f func(*part)) {
	name := tables()[table]
	for st := range stages {
		f(&s.parts[table][st])
		for c := range s.shared {
			if sharedChain(c).table() == name {
				f(&s.shared[c][st])
			}
		}
	}
}

func (s *script) reset() {
	for i := range s.parts {
		s.inOrder(i, (*part).reset)
	}
}

// release gives large buffers back, after a script that was far larger than most.
func (s *script) release() {
	const kept = 1 << 20
	if cap(s.buf) > kept {
		*s = script{}
	}
}

// lines returns how many lines a table has.
func (s *script) lines(table int) int {
	n := 0
	s.inOrder(table, func(p *part) { n += p.lines })
	return n
}

// written returns how many rules are added.
func (s *script) written() Rules {
	var n Rules
	for i, name := range tables() {
		n.add(name, s.parts[i][rules].lines+s.parts[i][inserts].lines)
	}
	for c := range s.shared {
		n.add(sharedChain(c).table(), s.shared[c][inserts].lines)
	}
	return n
}

// assemble returns the text; nil if there is nothing to do. It is valid until the next
// call. Filter goes before nat: a Service that gets endpoints is not refused any more
// when connections lead to them, and one that loses them is refused at once.
func (s *script) assemble() []byte {
	s.buf = s.buf[:0]
	for i, name := range tables() {
		if s.lines(i) == 0 {
			continue
		}
		s.buf = append(append(append(s.buf, '*'), name...), '\n')
		s.inOrder(i, func(p *part) { s.buf = append(s.buf, p.buf...) })
		s.buf = append(s.buf, commit...)
	}
	if len(s.buf) == 0 {
		return nil
	}
	return s.buf
}

const commit = "COMMIT\n"

// at returns a line of the text, counted from 1, and whose it is.
func (s *script) at(line int) (text string, key proxier.Key) {
	n := 0
	for l := range bytes.Lines(s.buf) {
		if n++; n == line {
			return string(bytes.TrimSuffix(l, []byte(newline))), s.ownerOf(line - 1)
		}
	}
	return "", key
}

// ownerOf returns whose a line is, counted from 0.
func (s *script) ownerOf(line int) proxier.Key {
	var found proxier.Key
	first := 0 // of the part
	for i := range s.parts {
		if s.lines(i) == 0 {
			continue
		}
		first++ // the name of the table
		s.inOrder(i, func(p *part) {
			if line >= first && line < first+p.lines {
				found = p.ownerOf(line - first)
			}
			first += p.lines
		})
		first++ // COMMIT
	}
	return found
}
