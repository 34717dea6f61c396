package node

import (
	"testing"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// TestShownCgroupDriver: what is shown is the driver in force.
func TestShownCgroupDriver(t *testing.T) {
	n := &Node{cfg: Config{Kubelet: &kubeletconfig.KubeletConfiguration{CgroupDriver: driverCgroupfs}}}
	if got := n.shown().CgroupDriver; got != driverCgroupfs {
		t.Errorf("before the runtime has answered the driver is %s", got)
	}
	n.driver = driverSystemd
	n.agent.set(&agent{})
	if got := n.shown().CgroupDriver; got != driverSystemd {
		t.Errorf("the driver is %s, want that of the runtime", got)
	}
	if got := n.cfg.Kubelet.CgroupDriver; got != driverCgroupfs {
		t.Errorf("the configuration was changed to %s", got)
	}
}
