package ipvs

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodekit-go/nodekit/proxier"
)

// Defaults of Config.
const (
	// DefaultMasqueradeBit is that of kube-proxy
	// (https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/).
	DefaultMasqueradeBit = 14
	// DefaultMarks is the high half of the marks of virtual servers: "NK".
	DefaultMarks = 0x4e4b
	// DefaultDrainTimeout is longer than pods usually take to shut down.
	DefaultDrainTimeout = time.Hour
	// DefaultCheckInterval is syncPeriod of kube-proxy.
	DefaultCheckInterval = 30 * time.Second
)

// Config configures a Backend. The zero value works.
type Config struct {
	// Device is the dummy device that has the addresses of Services. The Backend owns it
	// and every virtual server at one of its addresses. Empty means DefaultDevice.
	Device string
	// Table is the name of the tables, one per family, that the Backend owns. Empty means
	// DefaultTable.
	Table string
	// NetNS is the path of the network namespace to program, such as /run/netns/node.
	// Empty means that of the process.
	NetNS string
	// Families are the families to program; empty means both. ServicePorts of another
	// family are reported to Problem.
	Families []proxier.Family
	// Scheduler is the one of ServicePorts that name none. Empty means DefaultScheduler.
	Scheduler string
	// Timeouts of IPVS connections; zero fields leave what the kernel has.
	Timeouts Timeouts
	// StrictARP keeps the node from answering ARP requests for addresses of Services at
	// other devices, and from naming them in its own.
	StrictARP bool
	// ExcludeCIDRs are addresses whose virtual servers are never removed, whoever made
	// them; nor are they by Cleanup. A Service with the address and port of one takes it
	// over, with its scheduler and real servers, and leaves it as it is then when it goes.
	ExcludeCIDRs []netip.Prefix
	// MasqueradeAll masquerades every connection to a cluster IP.
	MasqueradeAll bool
	// MasqueradeBit is the bit of the packet mark, 0 to 31, that tells packets to
	// masquerade on their way through the kernel. Nil means DefaultMasqueradeBit.
	MasqueradeBit *int
	// Marks are the sixteen high bits of marks that name virtual servers: first packets of
	// connections from this node and its pods to an external address of a Service with
	// externalTrafficPolicy Local carry one from hook prerouting or output to IPVS. 0 means
	// DefaultMarks.
	Marks uint16
	// Local tells traffic of pods from that of others.
	Local Local
	// NodePortAddresses limit node ports to the node's addresses in one of these
	// prefixes, and NodePortPrimary to Network.NodeAddrs of the State; with both, node
	// ports answer at either. A family without any answers at all addresses of the node.
	// Loopback and link-local ones never answer.
	NodePortAddresses []netip.Prefix
	NodePortPrimary   bool
	// DrainTimeout is how long a removed endpoint of TCP or SCTP keeps its connections, with
	// weight 0. Then they are cut. 0 means DefaultDrainTimeout, less than 0 about a second.
	DrainTimeout time.Duration
	// CheckInterval is how often Watch looks for what others have changed. 0 means
	// DefaultCheckInterval.
	CheckInterval time.Duration
	// Problem is called, from within Apply and Reset, for each thing that a ServicePort
	// asks for and does not get. Nil means that problems are logged as warnings.
	Problem func(Problem)
	// Log receives what has no caller to go to; nil means none.
	Log *slog.Logger
}

// Timeouts are after how long IPVS forgets idle connections, in whole seconds: established
// ones of TCP, those of TCP after a FIN, and UDP flows.
type Timeouts struct {
	TCP    time.Duration
	TCPFin time.Duration
	UDP    time.Duration
}

// Problem says what is not programmed for a ServicePort, and why. The rest of
// it is in force.
type Problem struct {
	Key proxier.Key
	// Field is the field of the ServicePort.
	Field string
	// Reason is a sentence for an operator.
	Reason string
}

// String returns the problem on one line.
func (p Problem) String() string {
	return fmt.Sprintf("%s %s %s: %s: %s", p.Key.PortName, p.Key.Protocol, p.Key.Family, p.Field, p.Reason)
}

// complete fills in defaults.
func (c *Config) complete() {
	if c.Device == "" {
		c.Device = DefaultDevice
	}
	if c.Table == "" {
		c.Table = DefaultTable
	}
	if len(c.Families) == 0 {
		c.Families = []proxier.Family{proxier.IPv4, proxier.IPv6}
	}
	if c.Scheduler == "" {
		c.Scheduler = DefaultScheduler
	}
	if c.MasqueradeBit == nil {
		c.MasqueradeBit = new(DefaultMasqueradeBit)
	}
	if c.Marks == 0 {
		c.Marks = DefaultMarks
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.CheckInterval == 0 {
		c.CheckInterval = DefaultCheckInterval
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func (c *Config) validate() error {
	// NFT_TABLE_MAXNAMELEN of linux/netfilter/nf_tables.h, without the final zero.
	const maxTable = 255
	const maxInterfaceName = unix.IFNAMSIZ - 1 // linux/if.h, likewise
	if len(c.Table) > maxTable {
		return fmt.Errorf("config: Table %q is longer than %d bytes", c.Table, maxTable)
	}
	if len(c.Device) > maxInterfaceName {
		return fmt.Errorf("config: Device %q is longer than %d bytes", c.Device, maxInterfaceName)
	}
	if bit := *c.MasqueradeBit; bit < 0 || bit > 31 {
		return fmt.Errorf("config: MasqueradeBit %d is not in 0…31", bit)
	}
	if uint32(c.Marks)<<16 == 1<<*c.MasqueradeBit {
		return fmt.Errorf("config: Marks %#x are what MasqueradeBit %d sets", c.Marks, *c.MasqueradeBit)
	}
	if err := checkScheduler(c.Scheduler); err != nil {
		return fmt.Errorf("config: Scheduler: %w", err)
	}
	for i, f := range c.Families {
		if f != proxier.IPv4 && f != proxier.IPv6 {
			return fmt.Errorf("config: Families: %d is not a family", f)
		}
		if slices.Contains(c.Families[:i], f) {
			return fmt.Errorf("config: Families: %s stands there twice", f)
		}
	}
	for field, list := range map[string][]netip.Prefix{"ExcludeCIDRs": c.ExcludeCIDRs, "NodePortAddresses": c.NodePortAddresses} {
		for _, p := range list {
			if !p.IsValid() {
				return fmt.Errorf("config: %s: invalid prefix %v", field, p)
			}
		}
	}
	if c.CheckInterval < 0 {
		return fmt.Errorf("config: CheckInterval %v is negative", c.CheckInterval)
	}
	return errors.Join(c.Timeouts.validate(), c.Local.Validate())
}

func (t Timeouts) validate() error {
	// MAX_JIFFY_OFFSET limits what the kernel takes; 68 years are below it.
	const longest = time.Duration(1<<31-1) * time.Second
	for field, d := range map[string]time.Duration{"TCP": t.TCP, "TCPFin": t.TCPFin, "UDP": t.UDP} {
		if d < 0 || d > longest {
			return fmt.Errorf("config: Timeouts.%s %v is not in 0…%v", field, d, longest)
		}
		if d > 0 && d < time.Second {
			return fmt.Errorf("config: Timeouts.%s %v is less than a second, which is what the kernel counts in", field, d)
		}
	}
	return nil
}
