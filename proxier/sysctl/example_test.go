package sysctl_test

import (
	"fmt"
	"time"

	"github.com/nodekit-go/nodekit/proxier/sysctl"
)

func Example() {
	want := sysctl.Conntrack{MaxPerCore: 32768, Min: 131072, UDP: 30 * time.Second}
	for _, s := range want.Settings(8) { // sysctl.Host{}.Apply would write them
		fmt.Println(s)
	}
	// Output:
	// proc/sys/net/netfilter/nf_conntrack_max=262144
	// sys/module/nf_conntrack/parameters/hashsize=65536
	// proc/sys/net/netfilter/nf_conntrack_udp_timeout=30
}
