package podsync_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/podworker/podspec"
	"github.com/nodekit-go/nodekit/podworker/podsync"
)

// TestNodeThatChanges: pods that run are told the new address of their node, and new ones
// get its new name servers.
func TestNodeThatChanges(t *testing.T) {
	bubble(t, func(m *machine) {
		t := m.t
		var now atomic.Pointer[podsync.Facts]
		at := func(ip string) {
			now.Store(&podsync.Facts{IPs: []string{ip}, DNS: podspec.DNS{Host: podspec.Resolver{Servers: []string{ip}}}})
		}
		at("10.0.0.3")
		a := m.agent(t, func(c *podsync.Config) { c.Parts.Facts = func() podsync.Facts { return *now.Load() } })
		before, after := newPod("before"), newPod("after")
		before.Spec.HostNetwork = true
		a.add(before)
		pass(5 * time.Second)
		at("10.0.0.4")
		a.add(after)
		pass(5 * time.Minute) // all are synced again meanwhile
		for _, pod := range []string{a.status(before).HostIP, a.status(before).PodIP, a.status(after).HostIP} {
			if pod != "10.0.0.4" {
				t.Errorf("a pod is told address %q of its node, want 10.0.0.4", pod)
			}
		}
		var servers []string
		for _, c := range m.Calls("RunPodSandbox") {
			if req, ok := c.Request.(*runtimeapi.RunPodSandboxRequest); ok {
				servers = append(servers, req.GetConfig().GetDnsConfig().GetServers()...)
			}
		}
		if want := []string{"10.0.0.3", "10.0.0.4"}; !slices.Equal(servers, want) {
			t.Errorf("name servers are %v, want %v", servers, want)
		}
	})
}
