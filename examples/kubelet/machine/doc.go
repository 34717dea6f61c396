// Package machine prepares a machine for a kubelet and watches it: kernel settings, swap,
// processes that the kernel killed for want of memory, and the iptables chains by which
// others see that a kubelet is there.
//
// A node (package node) does none of this by itself, so that several can share a machine;
// the program examples/kubelet has it done by the configuration:
//
//	m := machine.New(machine.Config{FailSwapOn: true, Chains: true, Log: log})
//	if err := m.Prepare(); err != nil {
//		return err
//	}
//	return m.Run(ctx, tell)
//
// Prepare and Run are for one goroutine each. They need root; what the kernel does not let
// them do is logged, and the kubelet runs without.
package machine
