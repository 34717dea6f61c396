package devices

import (
	"hash/fnv"
	"strconv"
)

// printer writes Go values as go-spew does with the verb %#v, sorted keys and no
// methods.
type printer struct{ out []byte }

func (p *printer) text(parts ...string) {
	for _, s := range parts {
		p.out = append(p.out, s...)
	}
}

func (p *printer) number(n int64) { p.out = strconv.AppendInt(p.out, n, 10) }

// list writes a slice of n elements.
func (p *printer) list(isNil bool, n int, element func(i int)) { p.sequence("[", isNil, n, element) }

// dict writes a map of n entries.
func (p *printer) dict(isNil bool, n int, entry func(i int)) { p.sequence("map[", isNil, n, entry) }

func (p *printer) sequence(open string, isNil bool, n int, element func(i int)) {
	if isNil {
		p.text("<nil>")
		return
	}
	p.text(open)
	for i := range n {
		if i > 0 {
			p.text(" ")
		}
		element(i)
	}
	p.text("]")
}

func (p *printer) strings(list []string) {
	p.list(list == nil, len(list), func(i int) { p.text(list[i]) })
}

// sum is the checksum of what was written.
func (p *printer) sum() uint64 {
	h := fnv.New32a()
	_, _ = h.Write(p.out) // a hash never returns an error
	return uint64(h.Sum32())
}
