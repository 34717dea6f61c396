package admission

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSysctls(t *testing.T) {
	s, err := NewSysctls("6.1.0-13-amd64", []string{"net.core.*", "kernel/shmmax", "kernel.msg*", "net/ipv4/conf/eth0.1/forwarding"})
	if err != nil {
		t.Fatal(err)
	}
	with := func(n *Node) { n.Sysctls = s }
	forbidden := func(text string) outcome {
		return outcome{Verdict: "never", Reason: "SysctlForbidden", Message: "forbidden sysctl: " + text}
	}
	hostNetwork := func(p *corev1.Pod) { p.Spec.HostNetwork = true }
	hostIPC := func(p *corev1.Pod) { p.Spec.HostIPC = true }
	run(t, []test{
		{name: "safe everywhere", pod: newPod("p", nil, sysctl("net.ipv4.tcp_syncookies"), sysctl("kernel/shm_rmid_forced")), node: newNode(), want: admitted},
		{name: "safe on newer kernels", pod: newPod("p", nil, sysctl("net.ipv4.tcp_rmem")), node: newNode(with), want: admitted},
		{name: "on an unknown kernel", pod: newPod("p", nil, sysctl("net.ipv4.tcp_rmem")), node: newNode(), want: forbidden(`"net.ipv4.tcp_rmem" not allowlisted`)},
		{name: "unsafe", pod: newPod("p", nil, sysctl("net.core.somaxconn")), node: newNode(), want: forbidden(`"net.core.somaxconn" not allowlisted`)},
		{name: "of an allowed group", pod: newPod("p", nil, sysctl("net.core.somaxconn"), sysctl("kernel.msgmax")), node: newNode(with), want: admitted},
		{name: "allowed by name", pod: newPod("p", nil, sysctl("kernel.shmmax"), sysctl("net/ipv4/conf/eth0.1/forwarding")), node: newNode(with), want: admitted},
		{name: "of the machine", pod: newPod("p", nil, sysctl("vm.swappiness")), node: newNode(with), want: forbidden(`"vm.swappiness" not allowlisted`)},
		{name: "of the host's network", pod: newPod("p", nil, sysctl("net.core.somaxconn"), hostNetwork), node: newNode(with), want: forbidden(`"net.core.somaxconn" not allowed with host Net enabled`)},
		{name: "of the host's IPC", pod: newPod("p", nil, sysctl("kernel.msgmax"), hostIPC), node: newNode(with), want: forbidden(`"kernel.msgmax" not allowed with host IPC enabled`)},
		{name: "network setting beside the host's IPC", pod: newPod("p", nil, sysctl("net.core.somaxconn"), hostIPC), node: newNode(with), want: admitted},
	})
}

func TestNewSysctlsRefuses(t *testing.T) {
	for _, pattern := range []string{"vm.swappiness", "kernel.*", "*", "", "net*", "net.core..x", "net.Core.x", "kernel.shmmax*x", "fs.*"} {
		if _, err := NewSysctls("", []string{pattern}); err == nil || !strings.Contains(err.Error(), "sysctl") {
			t.Errorf("%q: error %v", pattern, err)
		}
	}
}

func TestKernelVersions(t *testing.T) {
	for _, tt := range []struct {
		kernel string
		want   bool
	}{{"4.5.0", true}, {"4.15-rc1", true}, {"5.0", true}, {"4.4.302", false}, {"3.10.0-1160.el7.x86_64", false}, {"", false}, {"6", false}, {"x.y", false}} {
		if got := (version{4, 5}).within(tt.kernel); got != tt.want {
			t.Errorf("%q is at least 4.5: %t", tt.kernel, got)
		}
	}
}

func FuzzNewSysctls(f *testing.F) {
	f.Add("6.1", "net.core.*", "net.core.somaxconn")
	f.Add("", "kernel/shm*", "vm/swappiness")
	f.Fuzz(func(t *testing.T, kernel, pattern, name string) {
		s, err := NewSysctls(kernel, []string{pattern})
		if err != nil {
			return
		}
		if s.allow(normalize(name)) && namespaceOf(normalize(name)) == "" {
			t.Errorf("pattern %q allows %q, a setting of the whole machine", pattern, name)
		}
	})
}
