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
//	go backend.Watch(ctx, p.RequestReset)
//	err = p.Run(ctx)
//
// Watch is the Backend's own, for those that notice what others change in the kernel: all
// of this module do. Run does not call it; without it nothing repairs what others flush,
// and proxier/ipvs does not remove endpoints that have drained.
//
// Proxier and Feed are safe for concurrent use, Tracker is not. No privilege is
// needed; a Backend may need one.
package proxier
