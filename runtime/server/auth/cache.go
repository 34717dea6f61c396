package auth

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// maxKept is how many answers of a kind are kept, as in the kubelet. Whoever may be asked
// about by strangers must not fill the memory.
const maxKept = 8192

// key stands for a question. It holds none of it.
type key [sha256.Size]byte

// cache keeps answers until they expire. Of too many, those go that nobody has asked for
// the longest.
type cache[V any] struct {
	limit int

	mu      sync.Mutex // guards the fields below
	entries map[key]*list.Element
	// recent has the entries, those that were asked for last in front.
	recent *list.List
}

type entry[V any] struct {
	key     key
	value   V
	expires time.Time
}

func newCache[V any](limit int) *cache[V] {
	return &cache[V]{limit: limit, entries: map[key]*list.Element{}, recent: list.New()}
}

// get returns an answer that has not expired.
func (c *cache[V]) get(k key) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none V
	element, ok := c.entries[k]
	if !ok {
		return none, false
	}
	e, _ := element.Value.(*entry[V])
	if !time.Now().Before(e.expires) {
		c.removeLocked(element)
		return none, false
	}
	c.recent.MoveToFront(element)
	return e.value, true
}

// put keeps an answer for a time; not at all if that is not positive.
func (c *cache[V]) put(k key, value V, keep time.Duration) {
	if keep <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.entries[k]; ok {
		c.removeLocked(old)
	}
	c.entries[k] = c.recent.PushFront(&entry[V]{key: k, value: value, expires: time.Now().Add(keep)})
	for c.recent.Len() > c.limit {
		c.removeLocked(c.recent.Back())
	}
}

func (c *cache[V]) removeLocked(element *list.Element) {
	if e, ok := c.recent.Remove(element).(*entry[V]); ok {
		delete(c.entries, e.key)
	}
}
