package ipvs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
	"github.com/nodekit-go/nodekit/proxier/internal/netns"
)

// parameter is a kernel parameter below /proc/sys/net.
type parameter struct {
	name  string
	value int
}

// parameters are those that the Backend's contract rests on
// (https://docs.kernel.org/networking/ipvs-sysctl.html and ip-sysctl.html): IPVS hands its
// connections to connection tracking, so that they can be masqueraded; connections whose
// endpoint is gone end at once; pinned clients leave an endpoint that drains; packets are
// passed on.
func parameters(strictARP bool) []parameter {
	out := []parameter{
		{"ipv4/vs/conntrack", 1},
		{"ipv4/vs/expire_nodest_conn", 1},
		{"ipv4/vs/expire_quiescent_template", 1},
		{"ipv4/ip_forward", 1},
	}
	if strictARP {
		out = append(out, parameter{"ipv4/conf/all/arp_ignore", 1}, parameter{"ipv4/conf/all/arp_announce", 2})
	}
	return out
}

// Prepare sets the kernel parameters that a Backend with cfg needs, as Reset does. It is for
// who does that with more privilege than the Backend has later.
func Prepare(cfg Config) error {
	if err := setParameters(cfg.NetNS, parameters(cfg.StrictARP)); err != nil {
		return fmt.Errorf("ipvs: %w", err)
	}
	return nil
}

// setParameters sets those that have another value, in the network namespace at path.
func setParameters(path string, all []parameter) error {
	return netns.Do(path, func() error {
		var errs []error
		for _, p := range all {
			file := "/proc/sys/net/" + p.name
			before, err := os.ReadFile(file)
			if err == nil && strings.TrimSpace(string(before)) == strconv.Itoa(p.value) {
				continue
			}
			if errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, fmt.Errorf("the kernel has no parameter net/%s", p.name))
				continue
			}
			if err := os.WriteFile(file, []byte(strconv.Itoa(p.value)), 0o644); err != nil {
				errs = append(errs, fmt.Errorf("set a kernel parameter to %d: %w", p.value, err))
			}
		}
		return errors.Join(errs...)
	})
}

// Check returns why the kernel cannot serve as a Backend needs it, nil if it can: its version,
// and whether it has IPVS in the network namespace at netNS, which is that of the process if
// empty. What is missing is a proxier.ErrNotSupported, want of privilege an io/fs.ErrPermission.
// It makes nothing; the kernel may load a module for it.
func Check(netNS string) error {
	if err := checkKernel(); err != nil {
		return fmt.Errorf("ipvs: %w", err)
	}
	c, err := dialIPVS(netNS)
	if err != nil {
		return fmt.Errorf("ipvs: %w", err)
	}
	return c.close()
}

// Oldest kernel: before 5.9 IPVS delays or misdirects connections from a source port that
// was used before, and before 5.13 nf_tables lacks parts that programs to look at rules
// count on.
const oldestMajor, oldestMinor = 5, 13

// checkKernel refuses kernels that are too old.
func checkKernel() error {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return fmt.Errorf("ask for the version of the kernel: %w", err)
	}
	release, _, _ := bytes.Cut(u.Release[:], []byte{0})
	return checkRelease(string(release))
}

// checkRelease passes what it cannot read.
func checkRelease(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return nil
	}
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return fmt.Errorf("%w: kernel %s is too old: %d.%d or later is needed", proxier.ErrNotSupported, release, oldestMajor, oldestMinor)
	}
	return nil
}
