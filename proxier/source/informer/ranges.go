package informer

import (
	"maps"
	"net/netip"
	"slices"
)

// ranges are the prefixes of all ServiceCIDRs by name. The zero value is empty.
type ranges struct {
	byName map[string][]netip.Prefix
	told   []netip.Prefix
	// complete says that every ServiceCIDR has been seen once: before, a cluster IP
	// could look unassigned only because its range is not known.
	complete bool
}

// set replaces the ranges of one ServiceCIDR. What is no prefix is left out: the
// API server admits none.
func (r *ranges) set(name string, cidrs []string) {
	if r.byName == nil {
		r.byName = make(map[string][]netip.Prefix)
	}
	var out []netip.Prefix
	for _, s := range cidrs {
		if p, err := netip.ParsePrefix(s); err == nil {
			out = append(out, p.Masked())
		}
	}
	r.byName[name] = out
}

func (r *ranges) remove(name string) { delete(r.byName, name) }

// now returns all ranges, sorted, and whether they differ from the last answer.
func (r *ranges) now() ([]netip.Prefix, bool) {
	if !r.complete {
		return nil, false
	}
	all := slices.Concat(slices.Collect(maps.Values(r.byName))...)
	slices.SortFunc(all, netip.Prefix.Compare)
	all = slices.Compact(all)
	if slices.Equal(all, r.told) {
		return nil, false
	}
	r.told = all
	return all, true
}
