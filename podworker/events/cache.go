package events

import "container/list"

// cache keeps the values used last.
type cache[K comparable, V any] struct {
	limit int
	order *list.List // of entry[K, V], the one used last in front
	at    map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newCache[K comparable, V any](limit int) cache[K, V] {
	return cache[K, V]{limit: limit, order: list.New(), at: map[K]*list.Element{}}
}

func (c *cache[K, V]) get(key K) (value V, ok bool) {
	el, ok := c.at[key]
	if !ok {
		return value, false
	}
	c.order.MoveToFront(el)
	return el.Value.(entry[K, V]).value, true
}

func (c *cache[K, V]) put(key K, value V) {
	if el, ok := c.at[key]; ok {
		el.Value = entry[K, V]{key, value}
		c.order.MoveToFront(el)
		return
	}
	c.at[key] = c.order.PushFront(entry[K, V]{key, value})
	if c.order.Len() > c.limit {
		last := c.order.Back()
		delete(c.at, last.Value.(entry[K, V]).key)
		c.order.Remove(last)
	}
}

// trim removes what was used longest ago, as long as it is of no use any more.
func (c *cache[K, V]) trim(useless func(V) bool) {
	for last := c.order.Back(); last != nil; last = c.order.Back() {
		e := last.Value.(entry[K, V])
		if !useless(e.value) {
			return
		}
		delete(c.at, e.key)
		c.order.Remove(last)
	}
}
