//go:build linux

package nftables

import (
	"testing"
	"time"

	"github.com/nodekit-go/nodekit/internal/netnstest"
	"github.com/nodekit-go/nodekit/proxier"
)

// A chain and each of its rules is a message with an answer, of which a socket
// holds about ten thousand: chains by the thousand need several transactions.
func TestKernelThousandsOfChains(t *testing.T) {
	t.Parallel()
	b := newBackend(t, netnstest.New(t), Config{Local: podNet()})
	plain := manyServices(1200, 1)
	pinned := make([]*proxier.ServicePort, len(plain))
	for i, p := range plain {
		c := *p
		sticky(time.Hour)(&c)
		pinned[i] = &c
	}
	reset(t, b, plain...)
	update(t, b, pinned...)
	reset(t, b, pinned...)
	update(t, b, plain...)
	reset(t, b, plain...)
	found, err := b.survey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f, n := range found {
		if len(n.chains) != 1 || len(n.chains[b.generations[f].number]) == 0 {
			t.Errorf("%s has chains of %d generations, want that in force alone", f, len(n.chains))
		}
	}
}
