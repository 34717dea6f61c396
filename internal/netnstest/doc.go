// Package netnstest gives tests throw-away network namespaces.
//
//	client, node := netnstest.New(t), netnstest.New(t)
//	netnstest.Veth(t, netnstest.End{NS: client, Name: "eth0", Addrs: []string{"192.0.2.2/24"}},
//		netnstest.End{NS: node, Name: "eth0", Addrs: []string{"192.0.2.1/24"}})
//	conn, err := client.Dial("tcp", "192.0.2.1:80", time.Second)
//
// A namespace is held by a file descriptor, not by a name or a thread: it ends
// with the test, and a killed test leaves nothing behind. Links are made with
// the ip command of iproute2, so that the package needs the standard library
// and x/sys alone.
//
// Namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and Linux. New skips
// the test where they cannot be had; with the environment variable
// REQUIRE_KERNEL=1 it fails the test instead. The functions may be called from
// several goroutines.
package netnstest
