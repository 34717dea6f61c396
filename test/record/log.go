package record

import (
	"maps"
	"slices"
	"sync"
)

// Log is a set of lines, one for each kind of call. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	seen map[string]bool
}

// Add adds a line; one that is there already changes nothing.
func (l *Log) Add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = make(map[string]bool)
	}
	l.seen[line] = true
}

// Lines returns the lines in order.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.seen))
}
