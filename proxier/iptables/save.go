package iptables

import (
	"bytes"
	"iter"
	"slices"
)

// savedChain is a chain as iptables-save prints it.
type savedChain struct {
	name string
	// text are the rules, each a line that begins with "-A name".
	text []byte
	// builtin tells a chain of the kernel's own, which has a policy.
	builtin bool
}

// savedTable is a table as iptables-save prints it, its chains in their order.
type savedTable struct {
	chains []*savedChain
	byName map[string]*savedChain
}

// chain returns a chain; nil if there is none of that name.
func (t *savedTable) chain(name string) *savedChain {
	if t == nil {
		return nil
	}
	return t.byName[name]
}

// lookup is chain without making a string of the name.
func (t *savedTable) lookup(name []byte) *savedChain {
	if t == nil {
		return nil
	}
	return t.byName[string(name)]
}

// has reports whether the chain has a rule, spelled like that.
func (c *savedChain) has(rule []byte) bool {
	if c == nil {
		return false
	}
	return bytes.HasPrefix(c.text, rule) || bytes.Contains(c.text, append([]byte{'\n'}, rule...))
}

// rules returns the text of the rules; nil of no chain.
func (c *savedChain) rules() []byte {
	if c == nil {
		return nil
	}
	return c.text
}

// parseSave reads what iptables-save prints. Rules stay where they are in data: those
// of one chain stand together. Lines that are not understood are passed over, among
// them comments and warnings.
func parseSave(data []byte) map[tableName]*savedTable {
	out := map[tableName]*savedTable{}
	var table *savedTable
	var last *savedChain // that of the line before
	for len(data) > 0 {
		line := data
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			line = data[:i+1]
		}
		start := data
		data = data[len(line):]
		body := bytes.TrimRight(line, "\n")
		switch {
		case bytes.HasPrefix(body, []byte("*")):
			table, last = &savedTable{byName: map[string]*savedChain{}}, nil
			if name := tableName(body[1:]); out[name] == nil {
				out[name] = table
			}
		case table == nil:
		case bytes.HasPrefix(body, []byte(":")):
			table.declare(body[1:])
		case bytes.HasPrefix(body, []byte("-A ")):
			last = table.add(last, start[:len(line)])
		case bytes.Equal(body, []byte("COMMIT")):
			table = nil
		}
	}
	return out
}

// declare reads "NAME POLICY [packets:bytes]", without the colon.
func (t *savedTable) declare(line []byte) {
	name, rest, _ := bytes.Cut(line, []byte(" "))
	if len(name) == 0 || t.byName[string(name)] != nil {
		return
	}
	c := &savedChain{name: string(name), builtin: !bytes.HasPrefix(rest, []byte("-"))}
	t.chains = append(t.chains, c)
	t.byName[c.name] = c
}

// add adds a rule to its chain, which it returns; nil if the chain was not declared.
func (t *savedTable) add(last *savedChain, line []byte) *savedChain {
	name, _, _ := bytes.Cut(bytes.TrimRight(line[len("-A "):], "\n"), []byte(" "))
	c := t.lookup(name)
	if c == nil {
		return nil
	}
	if line[len(line)-1] != '\n' {
		line = append(slices.Clone(line), '\n')
	}
	switch {
	case c.text == nil:
		c.text = line
	case c == last && follows(c.text, line):
		c.text = c.text[:len(c.text)+len(line)]
	default:
		c.text = append(slices.Clone(c.text), line...)
	}
	return c
}

// follows reports whether line comes right after text in one array, which text may
// then grow over.
func follows(text, line []byte) bool {
	end := len(text)
	if cap(text) < end+len(line) {
		return false
	}
	return &text[:end+1][end] == &line[0]
}

// target returns the chain that a rule leads to, if any.
func target(rule []byte) string {
	chain := ""
	words := bytes.Fields(rule)
	for i, w := range words {
		if (string(w) == "-j" || string(w) == "-g") && i+1 < len(words) {
			chain = string(words[i+1])
		}
	}
	return chain
}

// lines returns the rules one by one.
func (c *savedChain) lines() iter.Seq[[]byte] { return bytes.Lines(c.text) }
