package doctor_test

import (
	"os"

	"github.com/nodekit-go/nodekit/examples/kubelet/doctor"
)

func ExampleWriteText() {
	findings := []doctor.Finding{
		{Check: "runtime", Status: doctor.OK, Message: "containerd 2.4.2, CRI v1, at unix:///run/containerd/containerd.sock"},
		{Check: "swap", Status: doctor.Problem, Message: "the machine swaps to /swapfile, and the kubelet does not start so", Advice: "swapoff -a"},
	}
	doctor.WriteText(os.Stdout, findings)
	// Output:
	// ok       runtime  containerd 2.4.2, CRI v1, at unix:///run/containerd/containerd.sock
	// problem  swap     the machine swaps to /swapfile, and the kubelet does not start so → swapoff -a
}
