package main

import (
	"fmt"
	"strings"
)

// engine is a way to run a guest.
type engine struct {
	kind kind
	// kernelPackage is the Debian package that the kernel of qemu comes from.
	kernelPackage string
}

type kind string

const (
	// uml is user-mode Linux: a kernel that is a program of the host.
	uml kind = "uml"
	// qemu is an x86 machine in software. It never uses KVM: where /dev/kvm opens,
	// as on virtual machines that are no real ones, it may still run no kernel.
	qemu kind = "qemu"
)

// defaultKernel is the kernel of qemu. It has what kube-proxy wants of every kind:
// nf_tables with inet, ip and ip6, ip_vs, dummy devices, sctp, cgroup v2 with all
// controllers.
const defaultKernel = "linux-image-6.12-cloud-amd64"

func (e engine) String() string {
	if e.kind == qemu {
		return string(qemu) + ":" + e.kernelPackage
	}
	return string(e.kind)
}

func engineNamed(name string) (engine, error) {
	kindName, pkg, _ := strings.Cut(name, ":")
	switch k := kind(kindName); {
	case k == uml && pkg == "":
		return engine{kind: uml}, nil
	case k == qemu && pkg == "":
		return engine{kind: qemu, kernelPackage: defaultKernel}, nil
	case k == qemu:
		return engine{kind: qemu, kernelPackage: pkg}, nil
	}
	return engine{}, fmt.Errorf("engine %q: it is uml, qemu, or qemu: and a Debian kernel package", name)
}

// parameters are what a guest's kernel gets told by either engine: say little, end
// on a panic, and skip self-tests that cost a slow processor seconds.
const parameters = "quiet panic=-1 cryptomgr.notests random.trust_cpu=on initcall_blacklist=" +
	"jent_mod_init,crypto_kdf108_init,init_encrypted,load_system_certificate_list," +
	"bpf_tcp_ca_kfunc_init,bpf_dummy_struct_ops_init,trace_eval_init,init_ima," +
	"integrity_iintcache_init,raid6_select_algo,calibrate_xor_blocks"

// The devices of the guest, as its kernel names them. The kernel's messages go to
// the console, the program's output to one device, and what it leaves, with its
// exit status, to a disk: so output can neither fake nor garble the status.
const (
	umlOutput  = "/dev/ttyS1"
	umlDisk    = "/dev/ubda"
	qemuDisk   = "/dev/vda"
	qemuPort   = "nodekit.out" // a virtio port: a serial line takes a minute for 4 MB
	umlCPUName = "User Mode Linux"
)

// command returns the program and arguments that run m. Its standard output is the
// guest program's, its standard error the console.
func (m *machine) command() []string {
	if m.engine.kind == uml {
		return append([]string{
			m.base.kernel(), fmt.Sprintf("mem=%dM", m.memory), "initrd=" + m.initrd(), "root=/dev/ram0",
			// Where it keeps its control socket; without this it leaves ~/.uml.
			"uml_dir=" + m.dir + "/",
			// Without these it opens terminal windows.
			"con=null", "ssl=null", "con0=null,fd:2", "ssl1=null,fd:1",
			"ubd0=" + m.disk(),
		}, strings.Fields(parameters)...)
	}
	return []string{
		"qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-M", "pc,hpet=off", "-accel", "tcg",
		// Without vector units there is less to emulate.
		"-cpu", "Nehalem", "-smp", fmt.Sprint(m.cpus), "-m", fmt.Sprint(m.memory),
		"-kernel", m.base.kernel(), "-initrd", m.initrd(),
		"-append", "console=ttyS0 nokaslr mitigations=off tsc=reliable no_timer_check " + parameters,
		// Files, not stdio: that counts as closed when standard input ends.
		"-chardev", "file,id=console,path=/dev/stderr", "-serial", "chardev:console",
		"-device", "virtio-serial-pci", "-chardev", "file,id=out,path=/dev/stdout",
		"-device", "virtserialport,chardev=out,name=" + qemuPort,
		"-drive", "file=" + m.disk() + ",format=raw,if=virtio",
	}
}
