// Package proxier turns Services and EndpointSlices into the desired state of a
// service proxy, and keeps a Backend at it.
//
// Tracker is the pure half: API objects go in, ServicePorts of both IP families
// come out, incrementally; a changed endpoint costs what its Service costs. It
// implements traffic policies, topology hints, the fallback to terminating
// endpoints, session affinity, source ranges, and settles which of two Services
// gets a frontend that both ask for. Proxier is the loop around it: it waits for
// its feeds, gathers bursts of changes, calls the Backend, and tries again what
// failed.
//
// It is not for programming a kernel (proxier/nftables and its siblings are
// Backends) nor for fetching objects (proxier/source has feeds).
//
//	p, err := proxier.New(backend, proxier.Config{Node: proxier.Node{Name: "node-a"}})
//	...
//	feed := p.Feed("objects")
//	go func() {
//		feed.SetService(svc)
//		feed.SetEndpointSlice(slice)
//		feed.Synced()
//	}()
//	err = p.Run(ctx)
//
// Proxier and Feed are safe for concurrent use, Tracker is not. No privilege is
// needed; a Backend may need one.
package proxier
