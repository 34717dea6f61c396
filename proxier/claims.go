package proxier

import (
	"cmp"
	"net/netip"
	"slices"
)

// claimKey is what at most one ServicePort may own.
type claimKey struct {
	addr     netip.Addr // zero for a node port
	port     uint16
	protocol Protocol
	family   Family
}

func (p *port) claim(f Frontend) claimKey {
	return claimKey{addr: f.Addr, port: f.Port, protocol: p.key.Protocol, family: p.key.Family}
}

// claims settles which ServicePort owns a frontend that several ask for. The
// winner depends on nothing but who asks.
type claims struct {
	owner map[claimKey]*port
	// rivals has every claimant, the owner first, of a frontend with two or more.
	rivals map[claimKey][]*port
}

func newClaims() claims {
	return claims{owner: map[claimKey]*port{}, rivals: map[claimKey][]*port{}}
}

// precedes orders claimants: the older Service wins, then the smaller Key. A
// Service without a creation time, from a file, counts as older than any with one.
func (p *port) precedes(o *port) int {
	return cmp.Or(cmp.Compare(p.created, o.created), p.key.Compare(o.key))
}

// add enters p as a claimant of k and returns the other port whose ownership that
// changed, or nil.
func (c *claims) add(k claimKey, p *port) *port {
	owner, taken := c.owner[k]
	if !taken {
		c.owner[k] = p
		return nil
	}
	all := c.rivals[k]
	if all == nil {
		all = []*port{owner}
	}
	i, _ := slices.BinarySearchFunc(all, p, (*port).precedes)
	all = slices.Insert(all, i, p)
	c.rivals[k], c.owner[k] = all, all[0]
	if all[0] == owner {
		return nil
	}
	return owner
}

// remove takes p off the claimants of k and returns the port that owns it now
// instead, or nil.
func (c *claims) remove(k claimKey, p *port) *port {
	all := c.rivals[k]
	if all == nil {
		delete(c.owner, k)
		return nil
	}
	owned := c.owner[k] == p
	if i := slices.Index(all, p); i >= 0 {
		all = slices.Delete(all, i, i+1)
	}
	c.owner[k] = all[0]
	if len(all) > 1 {
		c.rivals[k] = all
	} else {
		delete(c.rivals, k)
	}
	if !owned {
		return nil
	}
	return all[0]
}
