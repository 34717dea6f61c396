package ipvs

import "github.com/nodekit-go/nodekit/proxier"

// marks hands out the marks of virtual servers, one for each ServicePort that needs one.
type marks struct {
	high  uint32
	of    map[proxier.Key]uint32
	taken map[uint32]bool
	// going are those of taken that nobody has any more, while the virtual server still sends
	// to endpoints of who had it.
	going map[uint32]bool
}

func newMarks(high uint16) *marks {
	return &marks{high: uint32(high) << 16, of: map[proxier.Key]uint32{}, taken: map[uint32]bool{}, going: map[uint32]bool{}}
}

// probe is a mark that no ServicePort has: a scheduler is tried with it.
func (m *marks) probe() uint32 { return m.high | 0xffff }

// covers reports whether mark is one of these.
func (m *marks) covers(mark uint32) bool { return mark&shortcutMask == m.high }

// wish gives a mark to key if it is free.
func (m *marks) wish(key proxier.Key, mark uint32) {
	if _, has := m.of[key]; !has && m.covers(mark) && mark != m.high && mark != m.probe() && !m.taken[mark] {
		m.of[key], m.taken[mark] = mark, true
	}
}

// get returns the mark of key, a new one if it has none, and false if all are taken.
func (m *marks) get(key proxier.Key) (uint32, bool) {
	if mark, has := m.of[key]; has {
		return mark, true
	}
	for mark := m.high + 1; mark < m.probe(); mark++ {
		if !m.taken[mark] {
			m.of[key], m.taken[mark] = mark, true
			return mark, true
		}
	}
	for mark := range m.going {
		delete(m.going, mark)
		m.of[key] = mark
		return mark, true
	}
	return 0, false
}

// release takes the mark of key back. Another one gets it after free, unless no other is left.
func (m *marks) release(key proxier.Key) {
	if mark, has := m.of[key]; has {
		delete(m.of, key)
		m.going[mark] = true
	}
}

// reserve keeps a mark that has a virtual server, and is nobody's, until free.
func (m *marks) reserve(mark uint32) {
	if m.covers(mark) && mark != m.high && mark != m.probe() && !m.taken[mark] {
		m.taken[mark], m.going[mark] = true, true
	}
}

// free ends what release and reserve began: the virtual servers are gone.
func (m *marks) free() {
	for mark := range m.going {
		delete(m.taken, mark)
	}
	clear(m.going)
}
