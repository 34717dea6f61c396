package node_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodekit-go/nodekit/lease/leasetest"
	"github.com/nodekit-go/nodekit/runtime/runtimetest"
)

// TestRuntimeIsToldThePodCIDRs: once for each change, and until it has taken them.
func TestRuntimeIsToldThePodCIDRs(t *testing.T) {
	onMachine(t, func(m *machine) {
		t := m.t
		told := func() (ranges []string) {
			for _, c := range m.Calls("UpdateRuntimeConfig") {
				ranges = append(ranges, c.Request.(*runtimeapi.UpdateRuntimeConfigRequest).GetRuntimeConfig().GetNetworkConfig().GetPodCidr())
			}
			return ranges
		}
		s := leasetest.New()
		m.start(t, small(t), joined(s))
		pass(time.Minute)
		if got := told(); len(got) != 0 {
			t.Errorf("the runtime was told %q before the Node had any range", got)
		}
		m.Inject("UpdateRuntimeConfig", runtimetest.Fault{Times: 1, Err: status.Error(codes.Unavailable, "starting")})
		s.SetNode("node-a", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{"10.244.1.0/24", "fd00:1::/64"} })
		pass(2 * time.Minute)
		const first, second = "10.244.1.0/24,fd00:1::/64", "10.244.2.0/24"
		if diff := cmp.Diff([]string{first, first}, told()); diff != "" {
			t.Errorf("ranges that the runtime was told, the first in vain (-want +got):\n%s", diff)
		}
		s.SetNode("node-a", func(n *corev1.Node) { n.Spec.PodCIDRs = []string{second} })
		pass(2 * time.Minute)
		if diff := cmp.Diff([]string{first, first, second}, told()); diff != "" {
			t.Errorf("ranges that the runtime was told (-want +got):\n%s", diff)
		}
	})
}
