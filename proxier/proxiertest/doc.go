// Package proxiertest helps to test what stands on either side of the proxier: Run
// holds a proxier.Backend against a table of packet flows, with real connections
// between network namespaces; Backend is an in-memory one that refuses misuse; Expect
// computes the desired state anew and by brute force, sharing no code with
// proxier.Tracker.
//
// It is not for programs: Backend programs nothing, and Expect costs all of its
// input at every call.
//
//	func TestKernelPacketFlows(t *testing.T) {
//		proxiertest.Run(t, func(tb testing.TB, w *proxiertest.World) proxier.Backend {
//			return mybackend.New(w.NetNS(proxiertest.OurNode), proxiertest.PodRanges())
//		})
//	}
//
// Switch is for a change of mode, and RunProxy does the same as Run for a whole program. Kubernetes' own kube-proxy passes the
// table in its modes nftables and iptables, and the random events after it.
//
// Backend is safe for concurrent use; Expect is a pure function. Neither needs a
// privilege. Run and RunProxy need Linux, root and the ip command of iproute2.
package proxiertest
