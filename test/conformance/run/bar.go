package run

import (
	"fmt"
	"strings"

	"github.com/nodekit-go/nodekit/test/conformance"
)

// bar is what a run is held against on the host that it runs on.
type bar struct {
	demand conformance.Demand
	// stock are the recorded runs of the stock binaries that count here.
	stock conformance.Runs
	// excused are the specs to run, and those that the host cannot pass.
	excused conformance.Excused
	// notes say which recorded results do not count, and what that means.
	notes []string
}

// bar returns what the run is held against. Its runtime may not be known yet.
func (r *runner) bar(past conformance.Past) (bar, error) {
	host := conformance.HostOf(allVersions(past))
	proof, _ := r.stock.On(host)
	if r.cfg.Kit.Foreign() { // Containerd stands in for it, but proves nothing about it.
		host.Runtime = ""
	}
	stock, apart := r.stock.On(host)
	b := bar{stock: stock, excused: conformance.Excused{Run: r.specs}}
	if len(apart) > 0 {
		b.notes = append(b.notes, fmt.Sprintf("recorded runs of the stock binaries do not count here (%s); %d do", strings.Join(apart, "; "), len(stock)))
	}
	b.demand = conformance.Demand{Stock: stock.Newest().Results, MaySkip: nodes(r.cfg) < r.cfg.Set.Nodes}
	if r.cfg.Kit.Stock(r.cfg.Set) {
		b.demand.Must = stock.Steady()
		b.demand.Ratchet = b.demand.Must
		return b, nil
	}
	var err error
	b.demand.Ratchet = r.ratchet
	if b.demand.Must, err = conformance.Must(r.cfg.Set.Name, r.ratchet, stock, conformance.Differences()); err != nil {
		return bar{}, err
	}
	b.excused, err = conformance.Excuses(r.specs, conformance.Skips(), proof)
	b.notes = append(b.notes, b.excused.Refused...)
	return b, err
}
