package nftables

import (
	"maps"
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/proxier"
)

func TestNumbersOfAffinityLists(t *testing.T) {
	var n numbers
	port := service("sticky", proxier.TCP, "10.96.0.60:80", far("10.0.0.1:80"), sticky(time.Hour))
	take := func() *entry {
		p, ok := n.pins(nil, port)
		if !ok {
			t.Fatal("no numbers left")
		}
		return &entry{input: port, port: port, pins: p}
	}
	first, second := take(), take()
	used := map[uint32]bool{}
	for _, e := range []*entry{first, second} {
		for _, l := range []pinList{e.pins.cluster, e.pins.local} {
			if l.number == 0 || used[l.number] {
				t.Errorf("list number %d is 0 or given twice", l.number)
			}
			used[l.number] = true
		}
	}
	n.release(first, nil)
	third := take()
	if used[third.pins.cluster.number] || used[third.pins.local.number] {
		t.Error("a number was given again before the kernel let go of it")
	}
	n.settle()
	fourth := take()
	if !used[fourth.pins.cluster.number] || !used[fourth.pins.local.number] {
		t.Error("settled numbers are not used again")
	}
	if fourth.pins.cluster.client == first.pins.cluster.client {
		t.Error("the number of clients was used again: they would be found pinned")
	}
	kept, ok := n.pins(second, port)
	if !ok || kept.cluster.number != second.pins.cluster.number || kept.cluster.client != second.pins.cluster.client {
		t.Error("a changed ServicePort got new numbers")
	}
	n.rebuild(maps.Values(map[int]*entry{2: second}))
	seen := map[uint32]bool{second.pins.cluster.number: true, second.pins.local.number: true}
	for range 3 {
		e := take()
		if seen[e.pins.cluster.number] || seen[e.pins.local.number] {
			t.Errorf("after rebuild, %d or %d is given twice", e.pins.cluster.number, e.pins.local.number)
		}
		seen[e.pins.cluster.number], seen[e.pins.local.number] = true, true
	}
}

func TestNumbersOfAffinityListsRunOut(t *testing.T) {
	n := numbers{list: maxPinLists - 2}
	port := service("sticky", proxier.TCP, "10.96.0.60:80", sticky(time.Hour))
	if _, ok := n.pins(nil, port); ok {
		t.Error("two lists were given though there is one number left")
	}
}
