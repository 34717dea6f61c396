package main

import (
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodekit-go/nodekit/examples/internal/program"
	"github.com/nodekit-go/nodekit/proxier/config"
)

// options are the flags. Those with a field in the file are in proxy, and have no
// effect with --config, as in kube-proxy.
type options struct {
	config, writeConfig          string
	sourceDir, podsURL           string
	master, hostname             string
	cleanup, initOnly, version   bool
	dryRun                       bool
	level                        program.LogLevel
	levelSet                     bool
	logFormat                    string
	proxy                        *config.Config
	healthzPort, metricsPort     int32
	iptablesBit                  int32
	iptablesPeriod, iptablesMin  time.Duration
	masqueradeAll                bool
	localhostNodePorts           bool
	conntrackMax, conntrackLeast int32
	established, closeWait       time.Duration
	oomScore                     int32
	explain                      string
}

// parse reads the flags; an error says which one is wrong.
func parse(args []string, usage io.Writer) (*options, error) {
	o := &options{proxy: config.Default()}
	f := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError)
	f.SetOutput(usage)
	f.SortFlags = false
	o.processFlags(f)
	o.fileFlags(f)
	o.otherModes(f)
	f.Usage = func() {
		fmt.Fprintf(usage, "kube-proxy serves Services on this node through nftables, iptables or ipvs.\n\n"+
			"  kube-proxy [flags]                   run\n"+
			"  kube-proxy plan [flags]              print what a start would change, and change nothing\n"+
			"  kube-proxy explain ADDRESS:PORT [flags]  tell what becomes of a connection, and why\n\nFlags:\n%s", f.FlagUsages())
	}
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if err := o.command(f.Args()); err != nil {
		return nil, err
	}
	if err := o.checkPorts(); err != nil {
		return nil, err
	}
	o.levelSet = f.Changed("log-level")
	o.fromFlags(f)
	return o, nil
}

// checkPorts refuses to turn a server off: kube-proxy takes 0 for that.
func (o *options) checkPorts() error {
	if o.config != "" {
		return nil
	}
	for _, port := range []struct {
		name  string
		value int32
	}{{"healthz-port", o.healthzPort}, {"metrics-port", o.metricsPort}} {
		if port.value < 1 || port.value > math.MaxUint16 {
			return fmt.Errorf("--%s is %d: the server cannot be turned off; 127.0.0.1 in --%s-bind-address hides it",
				port.name, port.value, strings.TrimSuffix(port.name, "-port"))
		}
	}
	return nil
}

// command reads what is no flag.
func (o *options) command(args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case args[0] == "plan" && len(args) == 1:
		o.dryRun = true
		return nil
	case args[0] == "explain" && len(args) == 2:
		o.explain = args[1]
		return nil
	}
	return fmt.Errorf("unexpected argument %q; see --help", args[len(args)-1])
}

func (o *options) processFlags(f *pflag.FlagSet) {
	f.StringVar(&o.config, "config", "", "`file` with a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1); flags with a field in it have no effect then")
	f.StringVar(&o.writeConfig, "write-config-to", "", "`file` to write the configuration to, with defaults, and exit")
	f.StringVar(&o.master, "master", "", "`address` of the API server; overrides the one in kubeconfig")
	f.StringVar(&o.sourceDir, "source-dir", "", "`directory` of Service and EndpointSlice manifests, in the place of an API server")
	f.StringVar(&o.podsURL, "pods-url", "", "`address` of the kubelet's pods, for Services in --source-dir with selectors: unix:///path/of/socket")
	f.StringVar(&o.hostname, "hostname-override", "", "`name` of the node; default: hostnameOverride of the file, else the host's name in lower case")
	f.BoolVar(&o.cleanup, "cleanup", false, "remove what kube-proxy made in the kernel, and exit")
	f.BoolVar(&o.initOnly, "init-only", false, "do what needs more than CAP_NET_ADMIN (kernel parameters), and exit")
	f.BoolVar(&o.dryRun, "dry-run", false, "print what a start would change, and exit: the same as plan")
	f.VarP(&o.level, "log-level", "v", "debug, info, warn or error; numbers are taken as in kube-proxy, from 4 on debug")
	f.StringVar(&o.logFormat, "log-format", "", "`format` of the log: text or json; default: logging.format of the file, else text")
	f.BoolVar(&o.version, "version", false, "print the version and exit")
}

func (o *options) fileFlags(f *pflag.FlagSet) {
	c := &o.proxy.KubeProxyConfiguration
	f.StringVar(&c.ClientConnection.Kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server")
	f.StringVar(&c.ClientConnection.ContentType, "kube-api-content-type", c.ClientConnection.ContentType, "`type` of requests to the API server")
	f.Float32Var(&c.ClientConnection.QPS, "kube-api-qps", c.ClientConnection.QPS, "requests a second to the API server")
	f.Int32Var(&c.ClientConnection.Burst, "kube-api-burst", c.ClientConnection.Burst, "requests at once to the API server")
	f.StringVar(&c.BindAddress, "bind-address", "", "`address` of the node, if the Node object is not to tell it; nothing is bound")
	f.StringVar(&c.HealthzBindAddress, "healthz-bind-address", c.HealthzBindAddress, "`address` of /healthz and /livez")
	f.StringVar(&c.MetricsBindAddress, "metrics-bind-address", c.MetricsBindAddress, "`address` of /metrics and /proxyMode")
	f.BoolVar(&c.BindAddressHardFail, "bind-address-hard-fail", false, "end if one of these cannot be bound")
	f.BoolVar(&c.EnableProfiling, "profiling", false, "serve /debug/pprof beside /metrics")
	f.StringVar((*string)(&c.Mode), "proxy-mode", "", "`mode`: nftables, which is also the default, iptables or ipvs")
	f.BoolVar(&o.masqueradeAll, "masquerade-all", false, "masquerade every connection to a cluster IP")
	f.StringVar((*string)(&c.DetectLocalMode), "detect-local-mode", "", "`mode`: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix")
	f.StringVar(&c.DetectLocal.BridgeInterface, "pod-bridge-interface", "", "`name` of the bridge of pods, for BridgeInterface")
	f.StringVar(&c.DetectLocal.InterfaceNamePrefix, "pod-interface-name-prefix", "", "`prefix` of the interfaces of pods, for InterfaceNamePrefix")
	f.StringVar(&c.ClusterCIDR, "cluster-cidr", "", "`ranges` of pods, one of each family, for ClusterCIDR")
	f.StringSliceVar(&c.NodePortAddresses, "nodeport-addresses", nil, "`CIDRs` or primary, localhost, all: where node ports answer")
	f.Int32Var(&o.oomScore, "oom-score-adj", config.DefaultOOMScoreAdj, "oom_score_adj of this process")
	f.Int32Var(&o.conntrackMax, "conntrack-max-per-core", config.DefaultMaxPerCore, "connections to track for each CPU; 0 leaves the table as it is")
	f.Int32Var(&o.conntrackLeast, "conntrack-min", config.DefaultConntrackMin, "connections to track at least")
	f.DurationVar(&o.established, "conntrack-tcp-timeout-established", config.DefaultEstablished, "idle timeout of TCP connections")
	f.DurationVar(&o.closeWait, "conntrack-tcp-timeout-close-wait", config.DefaultCloseWait, "timeout of TCP connections in CLOSE_WAIT")
	f.BoolVar(&c.Conntrack.TCPBeLiberal, "conntrack-tcp-be-liberal", false, "track packets outside of the window, too")
	f.DurationVar(&c.Conntrack.UDPTimeout.Duration, "conntrack-udp-timeout", 0, "timeout of UDP flows without an answer")
	f.DurationVar(&c.Conntrack.UDPStreamTimeout.Duration, "conntrack-udp-timeout-stream", 0, "timeout of UDP flows with an answer")
	f.DurationVar(&c.ConfigSyncPeriod.Duration, "config-sync-period", c.ConfigSyncPeriod.Duration, "has no effect: nothing is kept that could be delivered again")
	f.StringVar(&c.ShowHiddenMetricsForVersion, "show-hidden-metrics-for-version", "", "has no effect: no metric is hidden")
	f.StringToString("feature-gates", nil, "has no effect: no feature has a gate")
}

// otherModes are flags of iptables and ipvs mode. Those of iptables that nftables mode
// takes over have an effect there, too, as in kube-proxy.
func (o *options) otherModes(f *pflag.FlagSet) {
	f.Int32Var(&o.iptablesBit, "iptables-masquerade-bit", config.DefaultMasqueradeBit, "bit of the packet mark to masquerade by")
	f.DurationVar(&o.iptablesPeriod, "iptables-sync-period", config.DefaultSyncPeriod, "half of how long a change may wait before /healthz tells, and in mode iptables how often the rules are looked at")
	f.DurationVar(&o.iptablesMin, "iptables-min-sync-period", 0, "pause between two rounds; 0 means a few times as long as a round took")
	f.Int32Var(&o.healthzPort, "healthz-port", config.DefaultHealthzPort, "port of /healthz")
	f.Int32Var(&o.metricsPort, "metrics-port", config.DefaultMetricsPort, "port of /metrics")
	f.BoolVar(&o.localhostNodePorts, "iptables-localhost-nodeports", true, "in mode iptables, let IPv4 node ports answer at 127.0.0.1; sets net.ipv4.conf.all.route_localnet")
	o.ipvsFlags(f)
	for _, name := range []string{"healthz-port", "metrics-port"} {
		_ = f.MarkDeprecated(name, "use --"+name[:len(name)-len("-port")]+"-bind-address") // the flag is there
	}
}

func (o *options) ipvsFlags(f *pflag.FlagSet) {
	c := &o.proxy.IPVS
	f.StringVar(&c.Scheduler, "ipvs-scheduler", "", "in mode ipvs, `name` of the scheduler; default: rr. A Service may name another")
	f.StringSliceVar(&c.ExcludeCIDRs, "ipvs-exclude-cidrs", nil, "in mode ipvs and for --cleanup, `CIDRs` of virtual servers to leave alone")
	f.BoolVar(&c.StrictARP, "ipvs-strict-arp", false, "in mode ipvs, answer ARP requests at the device that has the address alone")
	f.DurationVar(&c.SyncPeriod.Duration, "ipvs-sync-period", config.DefaultSyncPeriod, "in mode ipvs, how often to look at what the kernel has; half of how long a change may wait before /healthz tells")
	f.DurationVar(&c.MinSyncPeriod.Duration, "ipvs-min-sync-period", 0, "in mode ipvs, pause between two rounds; 0 means a few times as long as a round took")
	f.DurationVar(&c.TCPTimeout.Duration, "ipvs-tcp-timeout", 0, "in mode ipvs, timeout of idle TCP connections; 0 leaves the kernel's")
	f.DurationVar(&c.TCPFinTimeout.Duration, "ipvs-tcpfin-timeout", 0, "in mode ipvs, timeout of TCP connections after a FIN; 0 leaves the kernel's")
	f.DurationVar(&c.UDPTimeout.Duration, "ipvs-udp-timeout", 0, "in mode ipvs, timeout of UDP flows; 0 leaves the kernel's")
}

// fromFlags puts into the configuration what flags of another type hold.
func (o *options) fromFlags(f *pflag.FlagSet) {
	c := &o.proxy.KubeProxyConfiguration
	c.NFTables.MasqueradeBit, c.NFTables.MasqueradeAll = &o.iptablesBit, o.masqueradeAll
	c.NFTables.SyncPeriod = metav1.Duration{Duration: o.iptablesPeriod}
	c.NFTables.MinSyncPeriod = metav1.Duration{Duration: o.iptablesMin}
	c.IPTables.MasqueradeBit, c.IPTables.MasqueradeAll = &o.iptablesBit, o.masqueradeAll
	c.IPTables.SyncPeriod, c.IPTables.MinSyncPeriod = c.NFTables.SyncPeriod, c.NFTables.MinSyncPeriod
	c.IPTables.LocalhostNodePorts = &o.localhostNodePorts
	c.OOMScoreAdj = &o.oomScore
	c.Conntrack.MaxPerCore, c.Conntrack.Min = &o.conntrackMax, &o.conntrackLeast
	c.Conntrack.TCPEstablishedTimeout = &metav1.Duration{Duration: o.established}
	c.Conntrack.TCPCloseWaitTimeout = &metav1.Duration{Duration: o.closeWait}
	if f.Changed("healthz-port") {
		c.HealthzBindAddress = withPort(c.HealthzBindAddress, o.healthzPort)
	}
	if f.Changed("metrics-port") {
		c.MetricsBindAddress = withPort(c.MetricsBindAddress, o.metricsPort)
	}
}

func withPort(addr string, port int32) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
